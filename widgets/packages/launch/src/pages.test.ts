import { expect, test } from "vitest";
import { PageIndex, trailOf } from "./pages";
import { smallLaunch } from "./testing/small_launch";

const launch = smallLaunch();
const pages = new PageIndex(launch);

test("an event leads to the page that it reads, and to its copy", () => {
  expect([pages.readOf(2), pages.copyOf(2), pages.readOf(3)]).toEqual([0, 0, undefined]);
  expect(pages.selectionOf(2)).toEqual({ page: 7, request: 1, token: 256, tokens: 64 });
  expect(pages.selectionOf(3)).toEqual({});
});

test("a page leads to the instructions that read it, by CTA and warp", () => {
  expect(pages.readsOf({ page: 7 })).toEqual([0]);
  expect(pages.readsOf({ page: 7, cta: 4, warp: 0 })).toEqual([0]);
  expect(pages.readsOf({ page: 7, cta: 4, warp: 1 })).toEqual([]);
  expect(pages.readsOf({ request: 1 })).toEqual([]);
});

test("pages, requests and tokens lead to the CTAs of the launch that read them", () => {
  expect(pages.ctasOf({ page: 8 })).toEqual([5]);
  expect(pages.ctasOf({ request: 1 })).toEqual([4, 5]);
  expect(pages.ctasOf({ request: 1, token: 300, tokens: 64 })).toEqual([5]);
  expect(pages.ctasOf({})).toEqual([]);
});

test("a read in words", () => expect(pages.textOf(0)).toBe("page 7, tokens 256 … 319 of r1"));

test("the way that led here stays selected within the same CTAs", () => {
  expect(trailOf(launch, { request: 1, page: 7, cta: 4, warp: 1 })).toEqual({ request: 1, page: 7 });
  expect(trailOf(launch, { request: 1, page: 7, cta: 5 })).toEqual({});
});
