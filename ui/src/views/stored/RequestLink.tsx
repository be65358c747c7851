// A request's id that leads from a cycle to all of its cycles.
import { shortId } from "../../lib/format.ts";
import { formatHash } from "../../lib/hash.ts";
import { place, selected } from "../../state.ts";

/** `inList`: whether the list of requests has it; else it is text. */
export function RequestLink({ id, inList }: { readonly id: string; readonly inList: boolean }) {
  if (!inList) {
    return (
      <span class="mono" title={id}>
        {shortId(id, 14)}
      </span>
    );
  }
  const look = { ...place.value.look, group: selected.value?.group ?? "" };
  return (
    <a
      class="mono"
      title={`${id}: all of its cycles`}
      href={formatHash({ ...place.value, tab: "requests", request: id, look })}
    >
      {shortId(id, 14)}
    </a>
  );
}
