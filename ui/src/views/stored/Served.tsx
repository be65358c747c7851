// Requests: those that the stored cycles served, each with its cycles, and those that others traced.
import { useSignal } from "@preact/signals";
import { clock, length, ms, plural, shortId, whole } from "../../lib/format.ts";
import { formatHash } from "../../lib/hash.ts";
import { acceptLength, found, type Served as Request, type ServedPage } from "../../lib/served.ts";
import { moreRequests, moreTraced, requestId, served, traced } from "../../looked.ts";
import { group, lookAgain } from "../../looking.ts";
import { place } from "../../state.ts";
import { AsOf, Failure, ReadAgain } from "../AsOf.tsx";
import { TracedTable } from "../Requests.tsx";
import { Sideways } from "../verdict/Sideways.tsx";
import { History } from "./History.tsx";
import { GroupPick } from "./Picks.tsx";

/** The requests of the run in view. */
export function Served() {
  const had = served.of(group.value);
  const page = had?.value ?? null;
  const wanted = useSignal("");
  return (
    <section class="served" aria-label="Requests" aria-busy={served.asking.value}>
      <h2 class="unseen">Requests</h2>
      <div class="freshness">
        <div class="picks">
          <GroupPick groups={page?.groups ?? []} />
          <label class="pick">
            <span class="caption">id</span>
            <input
              type="search"
              class="idfield"
              placeholder="a part of it"
              value={wanted.value}
              onInput={(event) => {
                wanted.value = event.currentTarget.value;
              }}
            />
          </label>
        </div>
        <div class="grow" />
        <AsOf ms={page && had ? had.atMs : null} asking={served.asking.value} />
        <ReadAgain disabled={served.asking.value} ask={lookAgain} />
      </div>
      <Failure what="The stored requests could not be read." why={had?.failure} />
      <div class={requestId.value === null ? "servedgrid" : "servedgrid split"}>
        <div class="servedlist">
          {page && <List page={page} wanted={wanted.value} />}
          <Others />
        </div>
        {requestId.value !== null && <History key={requestId.value} id={requestId.value} />}
      </div>
    </section>
  );
}

function List({ page, wanted }: { readonly page: ServedPage; readonly wanted: string }) {
  const shown = found(page.requests, wanted);
  const rest = page.before !== null;
  if (page.requests.length === 0) {
    return (
      <p class="part soft">
        No stored cycle names a request. Counts come with the results of a cycle; the server's own
        health checks are left out.
      </p>
    );
  }
  return (
    <section class="part" aria-label="Requests in stored cycles">
      <h3>
        Requests in stored cycles{" "}
        <span class="caption">
          {rest ? `the ${whole(page.requests.length)} served last` : whole(page.requests.length)}
          {wanted.trim() !== "" && `, ${whole(shown.length)} with this in their id`}
        </span>
      </h3>
      <Sideways label="Requests by their last cycle">
        <table class="requestlist">
          <thead>
            <tr>
              <th scope="col">request</th>
              <th scope="col">began</th>
              <th scope="col">took</th>
              <th scope="col">cycles</th>
              <th scope="col">tokens</th>
              <th scope="col">accept length</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((request) => (
              <Row key={request.id} request={request} />
            ))}
          </tbody>
        </table>
      </Sideways>
      {rest && (
        <button type="button" class="button" disabled={served.asking.value} onClick={moreRequests}>
          Show more
        </button>
      )}
    </section>
  );
}

function Row({ request }: { readonly request: Request }) {
  const chosen = request.id === requestId.value;
  return (
    <tr class={chosen ? "chosen" : ""}>
      <th scope="row">
        <a
          class="mono"
          href={formatHash({ ...place.value, tab: "requests", request: request.id })}
          aria-current={chosen ? "true" : undefined}
          title={request.id}
        >
          {shortId(request.id, 24)}
        </a>
      </th>
      <td>{clock(request.t0Ms, true)}</td>
      <td>{ms(request.lengthMs)}</td>
      <td>{whole(request.cycles)}</td>
      <td>{whole(request.tokens)}</td>
      <td>{length(acceptLength(request))}</td>
    </tr>
  );
}

/** What spans of others say; nothing where there are none. */
function Others() {
  const page = traced.had.value?.value;
  return page && page.requests.length > 0 ? (
    <section class="part" aria-label="Requests that others traced">
      <h3>
        Requests that others traced{" "}
        <span class="caption">
          {plural(page.requests.length, "trace")}
          {page.before !== null && ", the newest"}
        </span>
      </h3>
      <Sideways label="Traced requests">
        <TracedTable shown={page.requests} />
      </Sideways>
      {page.before !== null && (
        <button type="button" class="button" disabled={traced.asking.value} onClick={moreTraced}>
          Show more
        </button>
      )}
    </section>
  ) : null;
}
