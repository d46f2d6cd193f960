// One script, one style sheet, the same names each time: what is built is committed.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { licences } from "./licences.ts";

export default defineConfig({
  plugins: [svelte(), licences()],
  build: {
    outDir: "../regard/view/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    rollupOptions: {
      input: "src/main.ts",
      // a notebook imports the same file for what it exports
      preserveEntrySignatures: "strict",
      output: {
        entryFileNames: "app.js",
        assetFileNames: "app[extname]",
        codeSplitting: false,
      },
    },
  },
});
