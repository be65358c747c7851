import { expect, test as it } from "vitest";
import {
  costInWords,
  decodeAttached,
  decodeServers,
  type FoundServer,
  nameOf,
  partsInWords,
  statusInWords,
  tracedHere,
  undoInWords,
} from "./servers.ts";
import { runOf } from "./testing.ts";

const ANSWER = {
  servers: [
    {
      run: "r",
      pid: 70,
      command: ["python", "-m", "sglang.launch_server"],
      engine: "sglang 0.5.23",
      ranks: ["TP0", "TP1"],
      way: "ptrace",
      reader: "",
      mode: null,
      obstacle: "",
      mend: "",
    },
  ],
};

function found(changes: Partial<FoundServer> = {}): FoundServer {
  const [first] = decodeServers(ANSWER);
  if (!first) {
    throw new Error("nothing was read");
  }
  return { ...first, ...changes };
}

it("a server is named by its model or release, and the rest stands beside it", () => {
  expect(nameOf(found())).toBe("sglang 0.5.23");
  expect(partsInWords(found())).toBe("Process 70, ranks TP0 and TP1.");
  const model = found({ command: ["python", "--model-path", "/models/Llama-8B"] });
  expect(nameOf(model)).toBe("Llama-8B");
  expect(partsInWords(model)).toBe("Process 70, sglang 0.5.23, ranks TP0 and TP1.");
  const unknown = found({ engine: "", ranks: ["TP0"] });
  expect(nameOf(unknown)).toBe("Release not known");
  expect(partsInWords(unknown)).toBe("Process 70, rank TP0.");
});

it("who traces it is said, and by whose clock", () => {
  expect(statusInWords(found(), false)).toBe("Not traced.");
  const other = found({ obstacle: "spectrace: its ring has another layout." });
  expect(statusInWords(other, false)).toBe("Not traced by this release of spectrace.");
  expect(statusInWords(found({ reader: "process 9", mode: "host" }), false)).toBe(
    "Traced by process 9, timing host.",
  );
  expect(statusInWords(found({ reader: "process 9" }), true)).toBe("Traced on this page.");
  expect(statusInWords(found({ way: "joined" }), false)).toContain("nobody reads");
  expect(statusInWords(found({ way: "plugin" }), false)).toContain("sleeps");
});

it("only a way that puts something in is said to hold the server up", () => {
  for (const way of ["ptrace", "remote-exec"]) {
    expect(costInWords(found({ way }))).toContain("held up once");
  }
  expect(costInWords(found({ way: "gdb" }))).toContain("takes longer");
  for (const way of ["plugin", "loop", "joined"]) {
    expect(costInWords(found({ way }))).toContain("nothing stops");
  }
  expect(costInWords(found({ way: "one of a later release" }))).toContain("held up once");
});

it("where another one traces, this page reads along and leaves the probe to it", () => {
  const along = found({ way: "joined", reader: "process 9" });
  expect(costInWords(along)).toContain("Process 9 traces this server");
  expect(undoInWords(along)).toContain("stays for the other one");
  expect(undoInWords(found())).toContain("every function put back");
});

it("a server is traced here while its run is, and not by what was received or has ended", () => {
  const run = runOf({ run: "r", source: "attached", state: "tracing" });
  expect(tracedHere(found(), [run])).toBe(run);
  expect(tracedHere(found(), [{ ...run, state: "detached" }])).toBeNull();
  expect(tracedHere(found(), [{ ...run, source: "received" }])).toBeNull();
  expect(tracedHere(found({ run: "another" }), [run])).toBeNull();
});

it("what is no answer is refused", () => {
  expect(() => decodeServers({ servers: [{ run: "r" }] })).toThrow();
  expect(() => decodeServers(null)).toThrow();
  expect(() => decodeAttached({})).toThrow();
  expect(decodeAttached({ run: "r" })).toBe("r");
});
