// A lesson that is played: what is given, what the library answered, and both in the address.

import { untrack } from "svelte";
import type { Place } from "../lib/route.svelte";
import { json } from "../lib/server";

/** What a list of lessons says of one. */
export interface Told {
  name: string;
  title: string;
  question: string;
  guesses: string[];
  right: number;
  aha: string;
}

interface Answered<G> {
  given: G;
  code: string;
}

// Not a number that a lesson takes: which answer was guessed.
export const GUESS = "guess";
// The browser takes few changes of the address a second; a drag makes sixty.
const SETTLED = 300;

/** What an address holds of a lesson; what somebody mangled is left to the server to refuse. */
export function readGiven(params: Record<string, string>): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(params)) if (name !== GUESS) found[name] = parsed(text);
  return found;
}

export function writtenGiven(value: unknown): string {
  return typeof value === "string" && /^[a-z_]+$/.test(value) ? value : JSON.stringify(value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** To three decimals, as the lessons take numbers. */
export const rounded = (x: number): number => Math.round(x * 1000) / 1000;

export class Play<G extends object, A> {
  /** What is given, as it is dragged. */
  given = $state.raw<G | null>(null);
  /** What the library made of it, a moment later. */
  answer = $state.raw<(A & Answered<G>) | null>(null);
  trouble = $state("");
  private changed: Partial<G>;
  private asking = false;
  private again = false;
  private frame = 0;
  private timer = 0;
  // answers to what was asked before a reset, or after the lesson was left, are dropped
  private round = 0;

  constructor(
    private place: Place,
    readonly name: string,
  ) {
    this.changed = readGiven(place.now.params) as Partial<G>;
    void this.ask();
    $effect(() => {
      const params = place.now.params;
      untrack(() => this.follow(params));
    });
    $effect(() => () => this.end());
  }

  set(change: Partial<G>): void {
    this.changed = { ...this.changed, ...change };
    if (this.given) this.given = { ...this.given, ...change };
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      void this.ask();
    });
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.write(), SETTLED);
  }

  reset(): void {
    clearTimeout(this.timer);
    this.timer = 0;
    const none = Object.keys(this.changed).map((name) => [name, undefined]);
    this.changed = {};
    this.round += 1;
    this.place.set(Object.fromEntries(none));
    void this.ask();
  }

  private write(): void {
    this.timer = 0;
    const entries = Object.entries(this.changed).map(([name, value]) => [name, writtenGiven(value)]);
    this.place.set(Object.fromEntries(entries));
  }

  /** Somebody went back, or typed another address. */
  private follow(params: Record<string, string>): void {
    const there = readGiven(params) as Partial<G>;
    if (this.timer || JSON.stringify(there) === JSON.stringify(this.changed)) return;
    this.changed = there;
    this.round += 1;
    void this.ask();
  }

  /** One question at a time; what changed meanwhile is asked when the answer is there. */
  private async ask(): Promise<void> {
    if (this.asking) {
      this.again = true;
      return;
    }
    this.asking = true;
    const round = this.round;
    try {
      const answer = await json<A & Answered<G>>(`/api/lessons/${this.name}`, this.changed);
      if (round === this.round) {
        this.trouble = "";
        this.answer = answer;
        this.given = { ...answer.given, ...this.changed };
      }
    } catch (error) {
      if (round === this.round) this.trouble = (error as Error).message;
    }
    this.asking = false;
    if (this.again && this.round >= 0) {
      this.again = false;
      void this.ask();
    }
  }

  private end(): void {
    this.round = -1;
    this.again = false;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }
}
