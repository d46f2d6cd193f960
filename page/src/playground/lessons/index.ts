// Which lessons there are: those the library computes, each with its file, and those of trained models.

import type { Component } from "svelte";
import type { Told } from "../play.svelte";
import Causes from "./Causes.svelte";
import Choosing from "./Choosing.svelte";
import Costs from "./Costs.svelte";
import Dictionary from "./Dictionary.svelte";
import Heads from "./Heads.svelte";
import Masking from "./Masking.svelte";
import Permuting from "./Permuting.svelte";
import Places from "./Places.svelte";
import Roles from "./Roles.svelte";
import Scaling from "./Scaling.svelte";
import Scoring from "./Scoring.svelte";
import Softmax from "./Softmax.svelte";

export const LESSONS: Record<string, Component<{ told: Told }>> = {
  dictionary: Dictionary,
  scoring: Scoring,
  scaling: Scaling,
  softmax: Softmax,
  permuting: Permuting,
  places: Places,
  masking: Masking,
  heads: Heads,
  choosing: Choosing,
  roles: Roles,
  causes: Causes,
  costs: Costs,
};

interface Step {
  text: string;
  link?: { text: string; href: string };
}
interface OfModel {
  name: string;
  title: string;
  question: string;
  aha: string;
  steps: Step[];
}

const input = (text: string): string => `?input=${encodeURIComponent(text)}`;

export const MODELS: OfModel[] = [
  {
    name: "alignment",
    title: "Alignment",
    question: "A translator writes one word after the other. Which words of the source does it look at for each?",
    aha: "Nobody told it which words belong together. Reading the whole sentence again for every word it writes, it found the alignment because that is what helps, and long sentences no longer have to fit into one vector.",
    steps: [
      {
        text: "Open the recurrent translator of Bahdanau’s kind and watch the matrix: a path from the top left to the bottom right, that turns back where German puts its words elsewhere.",
        link: { text: "English to German, recurrent", href: `#/w/translate-en-de-rnn${input("A man in a blue shirt is standing on a ladder cleaning a window.")}` },
      },
      {
        text: "Give the Transformer the same sentence. It has many heads in many layers; look for the one that shows the same path.",
        link: { text: "English to German, Transformer", href: `#/w/translate-en-de${input("A man in a blue shirt is standing on a ladder cleaning a window.")}` },
      },
      { text: "Put both side by side.", link: { text: "Compare the two", href: "#/c/translate-en-de-rnn/translate-en-de" } },
    ],
  },
  {
    name: "tape",
    title: "A memory to write to",
    question: "A Neural Turing Machine hears some bits and must say them again. What does it have to learn?",
    aha: "Attention that writes makes a memory. The machine learned a program: write each vector into the next slot, go back, read slot after slot. That is why it also copies what is longer than anything it was trained on.",
    steps: [
      {
        text: "Click a pattern of bits and let it be copied: the write head walks over the tape, jumps back, and the read head follows the same way.",
        link: { text: "Copy", href: "#/w/copy" },
      },
      {
        text: "Look at one step up close: by content, or by a shift from where it was? Four stages make an address: content, gate, shift, sharpness.",
        link: { text: "Repeat copy", href: "#/w/repeat_copy" },
      },
      { text: "Here content matters: it has to find an item, and then say the one that followed.", link: { text: "Recall", href: "#/w/recall" } },
    ],
  },
  {
    name: "pointing",
    title: "Pointing",
    question: "The answer is some of the inputs, in an order. How large must the output vocabulary be?",
    aha: "There is none: the weights over the inputs are the answer. So the same model, with the same numbers inside, answers for five points and for fifty.",
    steps: [
      { text: "Click points onto the plane. The network points at those of their convex hull, one after the other.", link: { text: "Convex hull", href: "#/w/hull" } },
      { text: "Add more points: nothing in the model has to change. The fan at each step shows where it might have gone instead.", link: { text: "A round trip", href: "#/w/tsp" } },
      { text: "Sorting is pointing too.", link: { text: "Sort numbers", href: "#/w/sort" } },
    ],
  },
];
