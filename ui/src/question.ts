// Something that a view asks the server for again and again: what came last, and what is under way.
import { batch, type Signal, signal } from "@preact/signals";
import { type Answer, fetched } from "./fetching.ts";
import type { Read } from "./lib/asking.ts";

/** What came last. */
export interface Had<W, T> extends Read {
  readonly want: W;
  /** Of the same want, and before a failure perhaps older; null where it never came. */
  readonly value: T | null;
  /** Why the last one did not come, in a sentence; null where it did. */
  readonly failure: string | null;
}

/** How a question is put. */
interface How<W, T> {
  /** The same for wants of which one replaces the other. */
  readonly key: (want: W) => string;
  /** Below `api/`. */
  readonly path: (want: W) => string;
  readonly decode: (body: unknown) => T;
  /** What is kept of the value before, such as further pages. */
  readonly follow?: (before: T, next: T) => T;
}

/** One question; a newer one cuts an older one off. */
export class Question<W, T> {
  readonly had: Signal<Had<W, T> | null> = signal(null);
  readonly asking: Signal<boolean> = signal(false);
  readonly #how: How<W, T>;
  #under: { readonly key: string; readonly gone: AbortController } | null = null;

  constructor(how: How<W, T>) {
    this.#how = how;
  }

  /** What came last for this want; null where nothing did. */
  of(want: W | null): Had<W, T> | null {
    const had = this.had.value;
    return want && had && this.#how.key(had.want) === this.#how.key(want) ? had : null;
  }

  /** Asks, unless the same is under way. `stored` is how many cycles there are to read from. */
  async ask(want: W, stored: number): Promise<void> {
    const key = this.#how.key(want);
    if (this.#under?.key === key) {
      return;
    }
    const beganMs = Date.now();
    const answer = await this.#answer(key, this.#how.path(want));
    if (answer) {
      const atMs = Date.now();
      this.#take(want, answer, { stored, atMs, tookMs: atMs - beganMs });
    }
  }

  /** Puts a further page to what came last; nothing while something else is under way. */
  async more(path: string, join: (known: T, page: T) => T): Promise<void> {
    const had = this.had.value;
    if (this.#under || !had?.value) {
      return;
    }
    const answer = await this.#answer(`more ${path}`, path);
    if (answer && had.value) {
      const failed = "failure" in answer;
      const value = failed ? had.value : join(had.value, answer.value);
      this.had.value = { ...had, value, failure: failed ? answer.failure : null };
    }
  }

  /** The answer; null where another question came in between. */
  async #answer(key: string, path: string): Promise<Answer<T> | null> {
    this.#under?.gone.abort();
    const mine = { key, gone: new AbortController() };
    this.#under = mine;
    this.asking.value = true;
    const answer = await fetched(path, this.#how.decode, mine.gone.signal);
    if (this.#under !== mine) {
      return null;
    }
    this.#under = null;
    this.asking.value = false;
    return answer;
  }

  #take(want: W, answer: Answer<T>, read: Read): void {
    const before = this.had.peek();
    const kept = before && this.#how.key(before.want) === this.#how.key(want) ? before.value : null;
    const { follow } = this.#how;
    batch(() => {
      const value = "value" in answer ? answer.value : null;
      this.had.value = {
        ...read,
        want,
        value: value && kept && follow ? follow(kept, value) : (value ?? kept),
        failure: "failure" in answer ? answer.failure : null,
      };
    });
  }
}
