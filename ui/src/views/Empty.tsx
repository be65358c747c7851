// What stands here before there is a run.
import { found } from "../servers.ts";
import { requests, server } from "../state.ts";
import { Copy } from "./Copy.tsx";
import { RequestList } from "./Requests.tsx";
import { LookAgain, ServerList } from "./Servers.tsx";

const ATTACH = "spectrace attach --url http://127.0.0.1:30000";

/** Says how cycles get here. `known`: the server has answered. */
export function Empty({ known }: { readonly known: boolean }) {
  if (!known) {
    return null;
  }
  const attaches = server.value?.attaches === true;
  const endpoints = [server.value?.otlp_endpoint, server.value?.grpc_endpoint];
  const open = endpoints.filter((each) => typeof each === "string");
  return (
    <section class="empty">
      <h2 class="sentence">
        {attaches ? "Nothing is traced." : "Waiting for cycles."}
        {attaches && found.value?.length ? " These servers run here:" : ""}
      </h2>
      {attaches && (
        <>
          <ServerList />
          <div class="row">
            <LookAgain />
          </div>
        </>
      )}
      <p>
        {attaches ? "Or start tracing in a terminal." : "Start tracing a running SGLang server."}{" "}
        The server does not have to be restarted and does not wait.
      </p>
      <div class="command">
        <code class="mono">{ATTACH}</code>
        <Copy text={ATTACH} label="Copy" />
      </div>
      {open.length > 0 && (
        <p>
          Other machines send here when their exporter has this address, by HTTP
          {open.length > 1 && " or by gRPC"}:
        </p>
      )}
      {open.map((endpoint) => (
        <div class="command" key={endpoint}>
          <code class="mono">{endpoint}</code>
          <Copy text={endpoint} label="Copy" />
        </div>
      ))}
      {requests.value.length > 0 && (
        <>
          <h3>Requests that others traced</h3>
          <RequestList />
        </>
      )}
    </section>
  );
}
