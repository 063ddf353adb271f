// The JavaScript SDK against a running daemon: the page's snippets, and its sandbox methods.
//
// One process for all checks, since each would cost a start of node.  Each prints one line of JSON,
// {"check", "error"?}; tests/e2e/test_sdk_js.py reads them, and has the list of names.
//
//   S0D_TEST_NODE_MODULES=…/node_modules S0D_URL=http://… S0D_TOKEN=… node sdk.mjs

import assert from "node:assert/strict";
import path from "node:path";
import { pathToFileURL } from "node:url";

// Neither NODE_PATH nor a directory other than the importing file's is searched for modules.
const installed = path.join(process.env.S0D_TEST_NODE_MODULES, "sandbox0", "dist", "index.js");
const { APIError, Client, SandboxWaitTimeoutError } = await import(pathToFileURL(installed));

const POLL = { pollIntervalMs: 10, timeoutMs: 20000 };
const WORKER = {
    name: "docs-worker",
    command: [
        "/bin/sh",
        "-lc",
        "echo READY; i=0; while true; do i=$((i+1)); echo tick-$i; sleep 0.05; done",
    ],
    lifecycle: { restart: { policy: "on_failure" }, runtimeRecovery: "restart" },
    readiness: { type: "output", output: "READY", timeoutMs: 30000 },
};

const client = new Client({ baseUrl: process.env.S0D_URL, token: process.env.S0D_TOKEN });
const sandbox = client.sandbox("local");

/** Rejects with an APIError of this status and code. */
async function refused(promise, statusCode, code) {
    await assert.rejects(promise, (error) => {
        assert.ok(error instanceof APIError, String(error));
        assert.deepEqual([error.statusCode, error.code], [statusCode, code]);
        return true;
    });
}

/** The events after `after` up to the first of `type`. */
async function until(session, type, after = 0) {
    const seen = [];
    const stream = await sandbox.watchSessionEvents(session.id, { after });
    for await (const event of stream) {
        seen.push(event);
        if (event.type === type) break;
    }
    await stream.close();
    assert.equal(seen.at(-1)?.type, type);
    return seen;
}

function output(events, stream) {
    const wanted = events.filter((e) => e.dataBase64 && (!stream || e.stream === stream));
    return Buffer.concat(wanted.map((e) => Buffer.from(e.dataBase64, "base64"))).toString();
}

const checks = {
    // -- the page's snippets -----------------------------------------------------------------

    async create_with_an_idempotency_key() {
        const options = { idempotencyKey: "docs-worker-v1" };
        const first = await sandbox.createSession(WORKER, options);
        assert.match(first.id, /^ses-/);
        assert.ok(first.createdAt instanceof Date && first.createdAt.getTime() > 0);
        assert.equal((await sandbox.createSession(WORKER, options)).id, first.id);
        await refused(
            sandbox.createSession({ command: ["/bin/true"] }, options), 409, "session_conflict");
        assert.deepEqual((await sandbox.listSessions()).map((s) => s.id), [first.id]);
    },

    async follow_output_and_reconnect() {
        const session = await sandbox.createSession(WORKER);
        let lastSeq = 0;
        let outputCount = 0;
        const chunks = [];
        const stream = await sandbox.watchSessionEvents(session.id);
        for await (const event of stream) {
            assert.equal(event.seq, lastSeq + 1);
            lastSeq = event.seq;
            if (event.dataBase64) {
                chunks.push(Buffer.from(event.dataBase64, "base64"));
                outputCount++;
            }
            if (outputCount === 2) break;
        }
        await stream.close();
        assert.ok(Buffer.concat(chunks).toString().startsWith("READY\ntick-1\n"));

        // Closing the stream did not stop the session. Resume after lastSeq.
        const resumed = await sandbox.watchSessionEvents(session.id, { after: lastSeq });
        for await (const event of resumed) {
            assert.equal(event.seq, lastSeq + 1);
            break;
        }
        await resumed.close();
        const byId = await sandbox.watchSessionEvents(
            session.id, { lastEventId: String(lastSeq + 1) });
        for await (const event of byId) {
            assert.equal(event.seq, lastSeq + 2);
            break;
        }
        await byId.close();
        assert.equal((await sandbox.getSession(session.id)).attempt.id, session.attempt.id);
        await refused(
            sandbox.watchSessionEvents(session.id, { after: 1000000 }), 400, "invalid_request");
    },

    async pages() {
        const session = await sandbox.createSession(
            { command: ["/bin/sh", "-c", "echo one; echo two >&2"] });
        const watched = await until(session, "attempt.exited");
        const paged = [];
        for (;;) {
            const after = paged.at(-1)?.seq ?? 0;
            const page = await sandbox.listSessionEvents(session.id, { after, limit: 2 });
            assert.ok(page.cursor.latest >= after);
            if (page.events.length === 0) break;
            assert.ok(page.events.length <= 2);
            paged.push(...page.events);
        }
        assert.deepEqual(paged, watched);
        assert.equal(output(paged, "stdout"), "one\n");
        assert.equal(output(paged, "stderr"), "two\n");
    },

    async a_cursor_that_fell_behind() {
        const session = await sandbox.createSession({
            command: ["/bin/sh", "-c", "head -c 2000000 /dev/zero | tr '\\0' x; echo end"],
            eventRetention: { maxBytes: 262144 },
        });
        let phase, cursor;
        do {  // any stream may fall behind, too, so it is the session that tells
            ({ phase, cursor } = await sandbox.getSession(session.id));
        } while (phase !== "exited");
        assert.ok(cursor.earliest > 1);
        const stale = (error) => {
            assert.ok(error instanceof APIError, String(error));
            assert.deepEqual([error.statusCode, error.code], [410, "event_cursor_expired"]);
            assert.deepEqual(error.details, cursor);
            return true;
        };
        await assert.rejects(sandbox.watchSessionEvents(session.id, { after: 1 }), stale);
        await assert.rejects(sandbox.listSessionEvents(session.id, { after: 1 }), stale);
        const events = await until(session, "attempt.exited", cursor.earliest - 1);
        assert.equal(events[0].seq, cursor.earliest);
        assert.ok(output(events).endsWith("xend\n"));
    },

    async send_input_and_eof() {
        const session = await sandbox.createSession({ command: ["/bin/cat"] });
        if (!session.attempt) throw new Error("session has no current attempt");
        const write = (text) => sandbox.writeSessionInput(session.id, {
            inputId: "input-1",
            expectedAttemptId: session.attempt.id,
            dataBase64: Buffer.from(text).toString("base64"),
            eof: true,
        });
        const accepted = await write("hello\n");
        assert.deepEqual(
            [accepted.inputId, accepted.attemptId, accepted.accepted, accepted.duplicate],
            ["input-1", session.attempt.id, true, false]);
        const events = await until(session, "attempt.exited");
        assert.equal(output(events), "hello\n");
        assert.equal(events.at(-1).exitCode, 0);
        assert.equal((await write("hello\n")).duplicate, true);
        await refused(write("other\n"), 409, "session_conflict");
    },

    async signal_and_resize() {
        const session = await sandbox.createSession({
            command: ["/bin/sh", "-c", "trap 'stty size; exit 3' USR1; echo up; while :; do sleep 0.05; done"],
            io: { mode: "pty", terminal: { rows: 24, cols: 80, term: "xterm" } },
            readiness: { type: "output", output: "up" },
        });
        await until(session, "session.ready");
        const expectedAttemptId = session.attempt.id;
        const resized = await sandbox.resizeSessionTerminal(
            session.id, { rows: 50, cols: 132, expectedAttemptId });
        assert.equal(resized.data.resized, true);
        const sent = await sandbox.sendSessionSignal(
            session.id, { signal: "USR1", expectedAttemptId });
        assert.equal(sent.data.accepted, true);
        const events = await until(session, "attempt.exited");
        assert.equal(events.at(-1).exitCode, 3);
        assert.match(output(events), /50 132/);
    },

    async web_socket() {
        const session = await sandbox.createSession({
            command: ["/bin/sh", "-c", "echo up; while read -r line; do echo got $line; stty size; done"],
            io: { mode: "pty" },
        });
        const connection = await sandbox.connectSession(session.id, { after: 0 });
        const messages = connection.messages();
        const acked = new Set();
        let seen = "";
        let exited = false;
        const until = async (condition) => {
            while (!condition()) {
                const { value, done } = await messages.next();
                assert.ok(!done, `the connection ended; seen: ${seen}`);
                assert.notEqual(value.type, "error", value.error);
                if (value.type === "ack") acked.add(value.requestId);
                else if (value.event.type === "attempt.exited") exited = true;
                else if (value.event.dataBase64) {
                    seen += Buffer.from(value.event.dataBase64, "base64");
                }
            }
        };
        // Not waited for is what comes at once: the SDK (0.9.5) takes messages from a moment after it
        // is connected on, and loses those that come together with the answer to the handshake.
        const dataBase64 = Buffer.from("hi\n").toString("base64");
        connection.send({
            type: "resize", requestId: "r", rows: 50, cols: 132,
            expectedAttemptId: session.attempt.id,
        });
        connection.send({ type: "input", requestId: "i", inputId: "input-1", dataBase64 });
        await until(() => seen.includes("50 132"));
        connection.send({ type: "signal", requestId: "s", signal: "CONT" });
        connection.send({ type: "input", requestId: "e", inputId: "input-2", eof: true });
        // An answer waits for the disk, and may come after what the request causes.
        await until(() => exited && acked.size === 4);
        assert.deepEqual([...acked].sort(), ["e", "i", "r", "s"]);
        connection.close();
        // Detaching stopped nothing that was not over.
        assert.equal((await sandbox.getSession(session.id)).phase, "exited");
    },

    async stop_start_replace_update_delete() {
        const session = await sandbox.createSession(WORKER);
        const stopped = await sandbox.setSessionDesiredState(session.id, "stopped");
        assert.deepEqual(
            [stopped.phase, stopped.attempt.reason], ["stopped", "desired_state_stopped"]);
        const started = await sandbox.setSessionDesiredState(session.id, "running");
        assert.notEqual(started.attempt.id, session.attempt.id);
        await refused(sandbox.createSessionAttempt(session.id), 409, "session_conflict");
        const replaced = await sandbox.createSessionAttempt(session.id, true);
        assert.notEqual(replaced.attempt.id, started.attempt.id);
        const updated = await sandbox.updateSession(session.id, { ...WORKER, name: "renamed" });
        assert.equal(updated.spec.name, "renamed");
        assert.ok(updated.specVersion > replaced.specVersion);
        assert.equal(updated.attempt.id, replaced.attempt.id);

        const stream = await sandbox.watchSessionEvents(session.id);
        let last;
        const watching = (async () => {
            for await (const event of stream) last = event;
        })();
        assert.equal((await sandbox.deleteSession(session.id)).data.deleted, true);
        await watching;
        assert.deepEqual([last.type, last.reason], ["attempt.exited", "session_deleted"]);
        await refused(sandbox.getSession(session.id), 404, "session_not_found");
    },

    async without_a_token() {
        const stranger = new Client({ baseUrl: process.env.S0D_URL, token: "wrong" });
        await refused(stranger.sandbox("local").listSessions(), 401, "unauthorized");
    },

    // -- sandboxes ---------------------------------------------------------------------------

    async claim_get_status_list() {
        const claimed = await client.sandboxes.claim("default", { ttl: 600, hardTtl: 6000 });
        assert.deepEqual([claimed.template, claimed.status], ["default", "running"]);
        assert.notEqual(claimed.podName, "");
        const found = await client.sandboxes.get(claimed.id);
        assert.deepEqual(
            [found.id, found.status, found.paused, found.autoResume, found.runtimeGeneration],
            [claimed.id, "running", false, true, 1]);
        assert.equal(found.podName, claimed.podName);
        assert.ok(found.expiresAt < found.hardExpiresAt);
        const status = await client.sandboxes.status(claimed.id);
        assert.deepEqual(
            [status.sandboxId, status.templateId, status.status],
            [claimed.id, "default", "running"]);
        assert.ok(!Number.isNaN(new Date(status.claimedAt).getTime()));
        const ids = (listed) => listed.sandboxes.map((one) => one.id);
        assert.ok(ids(await client.sandboxes.list({ templateId: "default" })).includes(claimed.id));
        assert.ok(ids(await client.sandboxes.list({ status: "running" })).includes(claimed.id));
        assert.ok(!ids(await client.sandboxes.list({ paused: true })).includes(claimed.id));
        const page = await client.sandboxes.list({ limit: 1, offset: 1 });
        assert.deepEqual([ids(page), page.count, page.hasMore], [[claimed.id], 2, false]);
        const other = client.sandboxes.sandbox(claimed.id);
        assert.deepEqual(await other.listSessions(), []);
    },

    async update_and_refresh() {
        const { id } = await client.sandboxes.claim("default", { ttl: 600 });
        const updated = await client.sandboxes.update(id, { config: { autoResume: false } });
        assert.equal(updated.autoResume, false);
        const before = (await client.sandboxes.get(id)).expiresAt;
        const after = await client.sandboxes.refresh(id, { duration: 1200 });
        assert.deepEqual([after.sandboxId, after.expiresAt > before], [id, true]);
        const again = await client.sandboxes.refresh(id);
        assert.ok(again.expiresAt instanceof Date);
        // A host that cannot honour it says so.
        await refused(client.sandboxes.updateMemory(id, "1Gi"), 400, "invalid_request");
    },

    async pause_and_resume() {
        const { id } = await client.sandboxes.claim("default");
        const session = await client.sandboxes.sandbox(id).createSession(WORKER);
        const paused = await client.sandboxes.pause(id);  // no body, no content type
        assert.deepEqual([paused.sandboxId, paused.paused], [id, true]);
        const found = await client.sandboxes.get(id);
        assert.deepEqual([found.status, found.paused, found.podName], ["paused", true, ""]);
        assert.equal((await client.sandboxes.status(id)).status, "paused");
        const suspended = await client.sandboxes.sandbox(id).getSession(session.id);
        assert.deepEqual(
            [suspended.phase, suspended.attempt.reason], ["suspended", "runtime_replaced"]);
        const resumed = await client.sandboxes.resume(id);
        assert.deepEqual([resumed.sandboxId, resumed.resumed], [id, true]);
        const again = await client.sandboxes.sandbox(id).getSession(session.id);
        assert.deepEqual([again.runtimeGeneration, again.attempt.number], [2, 2]);
    },

    async pause_and_wait_resume_and_wait() {
        const { id } = await client.sandboxes.claim("default");
        const paused = await client.sandboxes.pauseAndWait(id, POLL);
        assert.deepEqual([paused.status, paused.paused], ["paused", true]);
        const resumed = await client.sandboxes.resumeAndWait(id, POLL);
        assert.deepEqual([resumed.status, resumed.paused], ["running", false]);
        assert.equal(resumed.runtimeGeneration, paused.runtimeGeneration + 1);
        assert.notEqual(resumed.podName, "");
        await assert.rejects(
            client.sandboxes.waitForLifecycle(
                id, (one) => one.paused, { timeoutMs: 0, pollIntervalMs: 1 }),
            SandboxWaitTimeoutError);
    },

    async fork() {
        const { id } = await client.sandboxes.claim("default");
        await client.sandboxes.sandbox(id).createSession({ command: ["/bin/cat"] });
        const forked = await client.sandboxes.fork(id);
        assert.equal(forked.sourceSandboxId, id);
        assert.deepEqual([forked.sandbox.status, forked.sandbox.paused], ["paused", true]);
        assert.deepEqual(await client.sandboxes.sandbox(forked.sandbox.id).listSessions(), []);
        const running = await client.sandboxes.resumeAndWait(forked.sandbox.id, POLL);
        assert.equal(running.status, "running");
    },

    async open_and_delete() {
        const opened = await client.sandboxes.open("other");
        const { id } = opened.sandbox;
        assert.equal((await client.sandboxes.get(id)).templateId, "other");
        await opened.close();
        await refused(client.sandboxes.get(id), 404, "sandbox_not_found");
        const claimed = await client.sandboxes.claim("default");
        const deleted = await client.sandboxes.delete(claimed.id);
        assert.equal(deleted.success, true);
        await refused(client.sandboxes.delete(claimed.id), 404, "sandbox_not_found");
        await refused(client.sandboxes.delete("local"), 409, "sandbox_conflict");
    },
};

/** What a check made is gone before the next. */
async function clean() {
    for (const session of await sandbox.listSessions()) await sandbox.deleteSession(session.id);
    const { sandboxes } = await client.sandboxes.list({ limit: 100 });
    for (const one of sandboxes.filter((one) => one.id !== "local")) {
        await client.sandboxes.delete(one.id);
    }
}

for (const [name, check] of Object.entries(checks)) {
    let error;
    try {
        await check();
    } catch (caught) {
        error = caught?.stack ?? String(caught);
    }
    await clean();
    console.log(JSON.stringify({ check: name, error }));
}
process.exit(0);  // connections that are kept alive would keep the process
