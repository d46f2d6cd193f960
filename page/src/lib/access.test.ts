import { expect, test } from "vitest";
import { linkIn } from "./access.svelte";

test("the token of a link is taken out of its address, and the place stays", () => {
  expect(linkIn("#token=a-B_9/t/0f?layer=2")).toEqual({ token: "a-B_9", hash: "#/t/0f?layer=2" });
  expect(linkIn("#token=abc")).toEqual({ token: "abc", hash: "#/" });
});
test("an address of the page is no link", () => {
  for (const hash of ["", "#/", "#/w/token=a", "#token=", "#token=a b", "#token=a<b>/"]) expect(linkIn(hash)).toBeNull();
});
