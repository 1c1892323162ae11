import { describe, expect, test, vi } from "vitest";
import { BarrierStates } from "./states";
import { timeAt } from "./stops";
import { smallLaunch } from "./testing/small_launch";
import { type Times, timedLaunch } from "./timed";

/** Warp 0 is late: what warp 1 does after its wait comes before warp 0's addition. */
const TIMES: Times = {
  start: Float64Array.of(0, 100, 110, 20, 910, 950, 940, 960),
  end: Float64Array.of(10, 110, 120, 900, 930, 955, 945, 965),
  phase: Float64Array.of(890, 945),
  operationStart: Float64Array.of(110, 930),
  operationEnd: Float64Array.of(890, 1500),
  state: Float64Array.of(10, 10, 120, 890, 945),
  states: smallLaunch().states,
};
const launch = smallLaunch();
const timed = timedLaunch(launch, TIMES);

test("events come in the order in which they take effect; a wait, when it ends", () => {
  expect(Array.from(timed.events.pc)).toEqual([0, 1, 2, 3, 4, 6, 5, 7]);
  expect(Array.from(timed.events.at)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(timed.meta.length).toBe(8);
});

test("who waited in modelled time has a wait, with the event that ended it", () => {
  expect(timed.waits.size).toBe(1);
  const [event, cause] = [timed.waits.event[0] as number, timed.waits.cause[0] as number];
  expect([timed.events.pc[event], timed.events.pc[cause]]).toEqual([3, 1]);
  expect(timed.clock.wait(0)).toEqual([20, 900]);
});

test("tables are renumbered alike", () => {
  const pcs = (column: Int32Array) => Array.from(column, (event) => timed.events.pc[event]);
  expect(pcs(timed.actions.event)).toEqual([0, 2, 3, 6, 7]);
  expect(pcs(timed.phases.event)).toEqual([1, 6]);
  expect(pcs(timed.operations.event)).toEqual([1, 4]);
});

test("the clock's steps are those of the order, and its axis is nanoseconds", () => {
  for (let step = 1; step <= timed.events.size; step++) {
    expect(timed.clock.stepAt(timed.clock.x(step))).toBe(step);
    expect(timed.clock.stepOf(timed.clock.momentAt(step))).toBe(step);
  }
  expect(timed.clock.at(4)).toBe("910 ns");
  expect(timed.clock.operation(0)).toEqual([110, 890]);
});

test("before the first step, the time is the launch's beginning, and says when the first event comes", () => {
  const late = timedLaunch(launch, {
    ...TIMES,
    start: TIMES.start.map((at) => at + 850),
    end: TIMES.end.map((at) => at + 850),
  });
  expect(timeAt(late, 0)).toBe(`0 ns, the first event at ${late.clock.at(0)}`);
  expect(late.clock.at(0)).toBe("850 ns");
  expect(timeAt(late, 1)).toBe("850 ns");
  expect(timeAt(timed, 0)).toBe("0 ns");
});

test("what ends without an instruction ends at its own time, and is over at the first step that is not before it", () => {
  expect([timed.clock.ended(0), timed.clock.done(0), timed.clock.began(0)]).toEqual([
    "890 ns",
    "890 ns",
    "20 ns",
  ]);
  expect(timed.clock.change(3)).toBe(890);
  const states = new BarrierStates(timed);
  const wait = timed.places.indexOf(timed.waits.event[0] as number) + 1;
  expect(timed.clock.x(wait)).toBe(900);
  expect([states.at(0, wait - 1).ended, states.at(0, wait).ended]).toEqual([0, 1]);
});

test("a change that an instruction makes comes with it, also beside others of the same moment", () => {
  const start = TIMES.start.map((at, i) => (i === 2 ? 100 : at)); // the announcement, when the copy is issued
  const state = TIMES.state.map((at, i) => (i === 2 ? 100 : at));
  const both = timedLaunch(launch, { ...TIMES, start, state });
  const index = Array.from(both.events.pc).indexOf(2);
  expect(both.states.position[2]).toBe(both.events.at[index]);
});

describe("a barrier at which the emulator's last is not the model's", () => {
  // warp 1 arrived last on the emulator, as event 8, and warp 0, which goes on as event 11, had waited since position 4
  const arrive = launch.meta.actions.indexOf("arrive");
  const column = (...values: number[]) => Int32Array.from(values);
  const synced = timedLaunch(
    {
      ...launch,
      actions: {
        size: 2,
        event: column(8, 11),
        barrier: column(2, 2),
        action: column(arrive, arrive),
        passed: column(0, 0),
        parity: column(0, 0),
      },
      waits: {
        size: 1,
        since: column(4),
        event: column(11),
        row: column(0),
        kind: column(0),
        barrier: column(2),
        phase: column(0),
        cause: column(8),
      },
      phases: {
        size: 1,
        position: column(8),
        barrier: column(2),
        number: column(0),
        event: column(8),
        asynchronous: column(0),
      },
    },
    { ...TIMES, end: TIMES.end.map((at, i) => (i === 4 ? 960 : at)), phase: Float64Array.of(955) },
  );
  const pc = (event: number | undefined) => synced.events.pc[synced.places.indexOf(event as number)];

  test("is left by the arrival of the model's last, once that is known", () => {
    expect(pc(synced.phases.event[0])).toBe(5);
    expect(synced.clock.ended(0)).toBe("955 ns");
    const [arrival, over] = [synced.phases.event[0] as number, synced.phases.position[0] as number];
    expect([synced.clock.x(arrival + 1), synced.clock.x(over + 1)]).toEqual([950, 960]);
  });

  test("is told to hold, and who waits there, for as long as it is drawn", () => {
    const states = new BarrierStates(synced);
    for (let step = 1; step <= synced.places.size; step++) {
      const now = synced.clock.x(step);
      const [began, ended] = [synced.clock.wait(0)[0], synced.clock.phase(0)];
      const { ended: over, waiting } = states.at(2, step);
      expect([step, over, waiting.length]).toEqual([
        step,
        ended <= now ? 1 : 0,
        began <= now && now < ended ? 1 : 0,
      ]);
    }
  });

  test("has the arrival that ended it in that phase, and who comes after its end in the next", () => {
    const states = new BarrierStates(synced);
    const arrived = (step: number) => states.arrivalsAt(2, step).come.map(({ event }) => pc(event));
    const over = synced.phases.position[0] as number;
    expect([arrived(over), arrived(over + 1)]).toEqual([[4, 5], []]);
  });

  test("who came last there did not wait, and the other did, for it", () => {
    expect(Array.from(synced.waits.event, pc)).toEqual([4]);
    expect(pc(synced.waits.cause[0])).toBe(5);
    expect(synced.clock.wait(0)).toEqual([910, 960]);
  });
});

test("a wait for a warp's own operations is one, also where the emulator had carried them out by then", () => {
  vi.spyOn(launch.code, "operationWaits").mockReturnValueOnce(new Set([5]));
  const end = TIMES.end.map((at, i) => (i === 5 ? 990 : at)); // from 950
  const waited = timedLaunch(launch, { ...TIMES, end });
  const row = waited.waits.event.findIndex((event) => waited.events.pc[event] === 5);
  expect(waited.clock.wait(row)).toEqual([950, 990]);
  expect([waited.waits.barrier[row], waited.waits.phase[row], waited.waits.cause[row]]).toEqual([-1, -1, -1]);
  expect(waited.meta.waitKinds[waited.waits.kind[row] as number]).toBe("async");
  const bar = waited.clock.bar(waited.waits.event[row] as number);
  expect(bar).toEqual([989, 990]); // what is left of it is busy
});

test("who comes to a barrier after its phase has ended did not wait for it", () => {
  const late = timedLaunch(launch, { ...TIMES, phase: Float64Array.of(15, 945) });
  expect(late.waits.size).toBe(0);
});
