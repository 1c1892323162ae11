import { describe, expect, test, vi } from "vitest";
import type { Driver } from "./driver";
import type { State } from "./protocol";
import { SessionTransport } from "./session_transport";

function state(change: Partial<State> = {}): State {
  return {
    position: 5,
    length: 20,
    complete: true,
    over: false,
    failed: false,
    ...change,
  } as unknown as State;
}

/** Where a session is, and what it is asked to do. */
function made(now = state()) {
  const go = vi.fn();
  const driver = { state: now, working: false, go };
  const transport = new SessionTransport(() => driver as unknown as Driver);
  transport.settle(now, "here");
  const settle = (change: Partial<State>) => {
    driver.state = state(change);
    transport.settle(driver.state, "there");
  };
  return { transport, go, settle, driver };
}

describe("what is known to its end", () => {
  test("has as many positions as instructions ran; going to one is a request", () => {
    const { transport, go } = made();
    expect([transport.track.length, transport.position]).toEqual([20, 5]);
    transport.goTo(12.4);
    expect(go).toHaveBeenCalledWith("seek", { position: 12 });
    expect(transport.position).toBe(5); // until the session says so
    transport.goTo(-3);
    expect(go).toHaveBeenLastCalledWith("seek", { position: 0 });
  });

  test("is not asked to go where it is", () => {
    const { transport, go } = made();
    transport.goTo(5);
    expect(go).not.toHaveBeenCalled();
  });

  test("does not step on when it is over, but back", () => {
    const { transport, go } = made(state({ position: 20, over: true } as never));
    transport.step(1);
    expect(go).not.toHaveBeenCalled();
    transport.step(-1);
    expect(go).toHaveBeenCalledWith("back");
  });
});

describe("what has not ended yet", () => {
  test("may have more: its last position is found by running", () => {
    const { transport, go } = made(state({ complete: false } as never));
    expect(transport.track.length).toBe(21);
    expect(transport.track.atLeast).toBe(true);
    transport.goTo(21);
    expect(go).toHaveBeenCalledWith("end");
    transport.goTo(20);
    expect(go).toHaveBeenLastCalledWith("seek", { position: 20 });
  });
});

test("a launch that fails has one position more, at which it has failed, and a mark there", () => {
  const failure = { position: 20, kind: "out_of_bounds" };
  const { transport } = made(state({ failed: true, failure } as never));
  expect([transport.track.length, transport.position]).toEqual([21, 21]);
  expect(transport.track.marks).toEqual([{ at: 21, label: "fails: out_of_bounds" }]);
});

test("findings are marked where they have a place", () => {
  const findings = [{ at: { position: 7 }, message: "race" }, { message: "leak" }];
  expect(made(state({ findings } as never)).transport.track.marks).toEqual([{ at: 7, label: "race" }]);
});

test("steps are requests of their size, for the selection events of the warp", () => {
  const { transport, go } = made();
  for (const id of ["instruction", "warp", "line", "event"]) {
    transport.setGranularity(id);
    transport.step(1);
    transport.step(-1);
  }
  transport.stepSelection(1);
  transport.stepSelection(-1);
  expect(go.mock.calls.map(([action]) => action)).toEqual(
    ["step", "back", "warp", "warp_back", "line", "line_back", "event", "event_back"].concat([
      "warp_event",
      "warp_event_back",
    ]),
  );
});

describe("playing", () => {
  test("goes on after a step, and stops where the session is stopped, fails or is over", () => {
    for (const end of [{ over: true }, { failed: true }, { stoppedBy: ["breakpoint"] }]) {
      const { transport, settle } = made();
      transport.play();
      settle({ position: 6 } as never);
      expect(transport.playing).toBe(true);
      settle({ position: 7, ...end } as never);
      expect(transport.playing, JSON.stringify(end)).toBe(false);
    }
  });

  test("goes on when more positions become known", () => {
    const { transport, settle } = made(state({ complete: false } as never));
    transport.play();
    settle({ position: 6, length: 30, complete: false } as never);
    expect(transport.playing).toBe(true);
    transport.pause();
  });

  test("begins again from the start at the end", () => {
    const { transport, go } = made(state({ position: 20 } as never));
    transport.play();
    expect(go).toHaveBeenCalledWith("seek", { position: 0 });
  });
});
