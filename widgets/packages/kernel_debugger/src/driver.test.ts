import { describe, expect, test, vi } from "vitest";
import type { Backend } from "./backend";
import { Driver } from "./driver";
import type { State } from "./protocol";

/** A session that answers when the test says so; `asked` is what it was asked, in order. */
function session() {
  const asked: string[] = [];
  const open: { answer: (state: Partial<State>) => Promise<void>; fail: (error: Error) => Promise<void> }[] =
    [];
  const settled = () => new Promise<void>((done) => setTimeout(done));
  const question = (name: string) => {
    asked.push(name);
    return new Promise<State>((resolve, reject) =>
      open.push({
        answer: (state) => {
          resolve(state as State);
          return settled();
        },
        fail: (error) => {
          reject(error);
          return settled();
        },
      }),
    );
  };
  const backend = {
    live: true,
    look: () => question("look"),
    go: (action: string) => question(action),
    goOn: () => question("go on"),
    halt: () => question("halt"),
    ask: (command: string) => question(command),
  } as unknown as Backend;
  const next = () => open.shift() as (typeof open)[number];
  return { driver: new Driver(backend), asked, next };
}

const LONG = { job: true } as unknown as Partial<State>;

describe("while a question is open", () => {
  test("the newest move waits and those between are dropped", async () => {
    const { driver, asked, next } = session();
    driver.go("step");
    driver.go("warp");
    driver.go("line");
    driver.refresh();
    expect(asked).toEqual(["step"]);
    await next().answer({ position: 1 });
    expect(asked).toEqual(["step", "line"]);
  });

  test("edits wait too, and none is lost to a later step", async () => {
    const { driver, asked, next } = session();
    driver.go("step");
    void driver.ask("watch" as never, {} as never);
    driver.go("warp");
    await next().answer({});
    while (asked.length < 3) await next().answer({});
    expect(asked.sort()).toEqual(["step", "warp", "watch"]);
  });

  test("it is said to be busy, and afterwards not", async () => {
    const { driver, next } = session();
    const busy: boolean[] = [];
    driver.busy.on((now) => busy.push(now));
    driver.go("step");
    expect(driver.working).toBe(true);
    await next().answer({});
    expect(busy).toEqual([true, false]);
    expect(driver.working).toBe(false);
  });
});

describe("Python says that the session has moved", () => {
  test("it is looked at again, once", async () => {
    const { driver, asked, next } = session();
    driver.refresh();
    await next().answer({ moved: 0 });
    driver.follow(1);
    await next().answer({ moved: 1 });
    driver.follow(1);
    expect(asked).toEqual(["look", "look"]);
  });

  test("while an older answer is on its way: that answer is not the last word", async () => {
    const { driver, asked, next } = session();
    const seen: (number | undefined)[] = [];
    driver.changed.on(({ moved }) => seen.push(moved));
    driver.refresh();
    const answered = next().answer({ moved: 0 }); // arrives in one piece with the news
    driver.follow(1);
    await answered;
    await next().answer({ moved: 1 });
    expect(asked).toEqual(["look", "look"]);
    expect(seen).toEqual([0, 1]);
  });

  test("because of this page's own step: nothing is asked again", async () => {
    const { driver, asked, next } = session();
    driver.go("step");
    driver.follow(1); // some hosts deliver the trait before the answer, others after it
    await next().answer({ moved: 1 });
    driver.follow(1);
    expect(asked).toEqual(["step"]);
  });

  test("and cannot be looked at: it is not asked for ever", async () => {
    const { driver, asked, next } = session();
    driver.failed.on(() => {});
    driver.refresh();
    driver.follow(1);
    await next().fail(new Error("no answer"));
    await next().fail(new Error("no answer"));
    expect(asked).toEqual(["look", "look"]);
  });
});

describe("another widget has gone elsewhere", () => {
  test("the session goes there", async () => {
    const { driver, asked, next } = session();
    driver.followTo(7);
    expect(asked).toEqual(["seek"]);
    await next().answer({ position: 7, moved: 1 });
    expect(driver.state?.position).toBe(7);
  });

  test("with this session: the look that its move has led to is enough", async () => {
    const { driver, asked, next } = session();
    driver.follow(1);
    driver.followTo(7);
    await next().answer({ position: 7, moved: 1 });
    expect(asked).toEqual(["look"]);
  });

  test("with another session: this one is found elsewhere and goes there", async () => {
    const { driver, asked, next } = session();
    driver.follow(1);
    driver.followTo(7);
    await next().answer({ position: 3, moved: 1 });
    expect(asked).toEqual(["look", "seek"]);
  });

  test("and looks at another warp: what was asked before shows the wrong one", async () => {
    const { driver, asked, next } = session();
    driver.follow(1);
    Object.assign(driver.look, { cta: 0, warp: 3, group: 0 });
    driver.followTo(7);
    await next().answer({ position: 7, moved: 1 });
    expect(asked).toEqual(["look", "seek"]);
  });

  test("news that come while the answer is taken for enough are looked at", async () => {
    const { driver, asked, next } = session();
    driver.follow(1);
    driver.followTo(7);
    driver.follow(2);
    await next().answer({ position: 7, moved: 1 });
    expect(asked).toEqual(["look", "look"]);
  });
});

describe("a long run", () => {
  test("shows every moment that it comes to and goes on by itself", async () => {
    const { driver, asked, next } = session();
    const seen: (number | undefined)[] = [];
    driver.changed.on(({ position }) => seen.push(position));
    driver.go("run");
    await next().answer({ ...LONG, position: 10 });
    await next().answer({ ...LONG, position: 20 });
    await next().answer({ position: 25 });
    expect(asked).toEqual(["run", "go on", "go on"]);
    expect(seen).toEqual([10, 20, 25]);
  });

  test("is ended by halt, and only that run", async () => {
    const { driver, asked, next } = session();
    driver.go("run");
    await next().answer(LONG);
    driver.halt();
    await next().answer(LONG); // of the question that was open
    await next().answer({});
    driver.go("run");
    await next().answer(LONG);
    expect(asked).toEqual(["run", "go on", "halt", "run", "go on"]);
  });

  test("that fails while it is halted does not halt the next one", async () => {
    const { driver, asked, next } = session();
    driver.failed.on(() => {});
    driver.go("run");
    await next().answer(LONG);
    driver.halt();
    await next().fail(new Error("the kernel is gone"));
    driver.halt(); // there is none any more
    driver.go("run");
    await next().answer(LONG);
    expect(asked.at(-1)).toBe("go on");
  });
});

test("an error goes to who asked, if he takes it, else to all; the next question is asked all the same", async () => {
  const { driver, asked, next } = session();
  const [all, mine] = [vi.fn(), vi.fn()];
  driver.failed.on(all);
  void driver.ask("watch" as never, {} as never, mine);
  driver.go("step");
  await next().fail(new Error("no such name"));
  expect(mine).toHaveBeenCalledOnce();
  expect(all).not.toHaveBeenCalled();
  expect(asked).toEqual(["watch", "step"]);
  await next().fail(new Error("gone"));
  expect(all).toHaveBeenCalledOnce();
});
