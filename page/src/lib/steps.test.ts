import { describe, expect, it } from "vitest";
import { asked, shown } from "./steps";

describe("a step", () => {
  it("has answered where an arrow stands before its words", () => {
    expect(["→ 0110", "0110", "start"].map(asked)).toEqual([true, false, false]);
  });
  it("is shown with a blank behind its arrow, and with a sign for one at its end", () => {
    expect(shown("→ a b ")).toBe("→\u00a0a b␣");
  });
});
