// The licences of the packages whose code ends in the bundle: in front of it, and in a file beside it.
import type { Plugin } from "vite";

const PERMISSION = "Permission is hereby granted";

/** The folder of the package that a module is of; none for a module of our own. */
function folderOf(module: string): string[] {
  const found = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(module.replaceAll("\\", "/"));
  return found ? [found[0]] : [];
}

interface Files {
  readFile(path: string, options: { encoding: "utf8" }): Promise<string>;
  readdir(path: string): Promise<string[]>;
}

/** Name, copyright line and text of a package's licence, which must be MIT's. */
async function licenceOf(folder: string, files: Files): Promise<[string, string, string]> {
  const read = (name: string) => files.readFile(`${folder}/${name}`, { encoding: "utf8" });
  const { name, license } = JSON.parse(await read("package.json"));
  const file = (await files.readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
  const text = file ? (await read(file)).trim() : "";
  const copyright = text.split("\n").find((line) => line.startsWith("Copyright"));
  if (license !== "MIT" || !copyright || !text.includes(PERMISSION)) {
    throw new Error(`licences: expected ${name} under MIT with its text, got ${license}`);
  }
  return [name, copyright, text];
}

/** Puts a notice in front of the script, and LICENSES.txt beside it. */
export function licences(): Plugin {
  return {
    name: "licences",
    async generateBundle(_, bundle) {
      const chunks = Object.values(bundle).filter((one) => one.type === "chunk");
      const modules = chunks.flatMap((one) => Object.keys(one.modules));
      const folders = [...new Set(modules.flatMap(folderOf))].sort();
      const found = await Promise.all(folders.map((one) => licenceOf(one, this.fs as Files)));
      const lead = "app.js contains code of these packages, each under the MIT licence.\n\n";
      const texts = found.map(([name, , text]) => `${name}\n\n${text}\n`).join("\n---\n\n");
      this.emitFile({ type: "asset", fileName: "LICENSES.txt", source: lead + texts });
      const lines = found.map(([name, copyright]) => `${name}, MIT licence: ${copyright}`);
      const [, , text] = found[0];
      const notice = [...lines, "", text.slice(text.indexOf(PERMISSION))].join("\n");
      for (const chunk of chunks) chunk.code = `/*!\n${notice}\n*/\n${chunk.code}`;
    },
  };
}
