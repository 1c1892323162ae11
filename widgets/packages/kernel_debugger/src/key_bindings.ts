// The keys of the debugger, besides those of every widget. A saved page has those that look, not those that run.

import type { KeyBinding } from "@sglab/core";
import type { Driver } from "./driver";

export interface KeyActions {
  driver: Driver;
  toCursor: (action: "to" | "back_to") => void;
  toggle: () => void;
  watch: () => void;
  nextWarp: (step: number) => void;
  fold: () => void;
  search: () => void;
}

export function keyBindings(live: boolean, actions: KeyActions): KeyBinding[] {
  const { driver, toCursor, nextWarp } = actions;
  const running: KeyBinding[] = [
    { keys: ["r"], label: "run to the next breakpoint, or the end", run: () => driver.go("run") },
    {
      keys: ["R"],
      shown: "Shift+R",
      label: "run back to the last breakpoint",
      run: () => driver.go("run_back"),
    },
    { keys: ["b"], label: "breakpoint at the cursor's line", run: actions.toggle },
    { keys: ["t"], label: "run to the cursor's line", run: () => toCursor("to") },
    { keys: ["T"], shown: "Shift+T", label: "back to the cursor's line", run: () => toCursor("back_to") },
    { keys: ["f"], label: "let the focused warp go first", run: () => driver.go("force") },
    { keys: ["x"], label: "stop a long run", run: () => driver.halt() },
    { keys: ["w"], label: "watch memory", run: actions.watch },
  ];
  return [
    ...(live ? running : []),
    { keys: ["ArrowDown"], label: "next warp; in a listing, next line", run: () => nextWarp(1) },
    { keys: ["ArrowUp"], label: "previous warp; in a listing, previous line", run: () => nextWarp(-1) },
    { keys: ["z"], label: "hide lines without code in the listing, or show them", run: actions.fold },
    { keys: ["/", "g"], label: "search in the listing, or go to a line by its number", run: actions.search },
  ];
}
