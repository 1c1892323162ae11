import { expect, test, vi } from "vitest";
import { headerFor, notifyOf } from "./axis_choice";
import { smallLaunch } from "./testing/small_launch";

const launch = smallLaunch();
const meta = { ...launch.meta, spin: "A warp spins.", timed: { product: "H100", total: 900 } };
const timed = { ...launch, meta, clock: { ...launch.clock, timed: true } };
const issued = { ...timed, clock: launch.clock };

test("where a loop waits for memory, modelled times come with what they are worth; issue order does not", () => {
  const frame = { notify: vi.fn(), clearNotice: vi.fn() };
  notifyOf(frame, timed);
  expect(frame.notify.mock.calls).toEqual([["info", "A warp spins."]]);
  notifyOf(frame, issued);
  expect(frame.clearNotice).toHaveBeenCalledOnce();
  notifyOf(frame, launch);
  notifyOf(frame, { ...launch, meta: { ...launch.meta, error: "deadlock" } });
  expect(frame.notify.mock.calls.slice(1)).toEqual([["error", "deadlock"]]);
  const header = { title: "", subject: "", badge: { text: "", title: "" } } as never;
  expect(headerFor(header, timed).badge?.title).toMatch(/order of modelled time\. A warp spins\.$/);
  expect(headerFor(header, issued).badge?.title).toBe("");
});
