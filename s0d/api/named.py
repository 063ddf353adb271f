"""The handlers of named sessions (wire contract, section 4)."""

from __future__ import annotations

from s0d.wire.named import CreateBody, KillBody, NamedList, NamedSession, Resumed

from .call import Call


async def list_named(call: Call) -> NamedList:
    """Never wakes the sandbox: what is listed is then what was last known."""
    named = call.sandbox.named
    return NamedList(list(map(named.info, named.all())), call.sandbox.suspended)


async def create_named(call: Call) -> NamedSession:
    body: CreateBody = call.body
    spec = body.spec()
    await call.sandbox.wake()
    named = call.sandbox.named
    session = await named.create(spec, replace=bool(body.replace))
    return NamedSession(named.info(session))


async def get_named(call: Call) -> NamedSession:
    return NamedSession(call.sandbox.named.info(call.named))


async def delete_named(call: Call) -> None:
    await call.sandbox.named.delete(call.name)


async def kill_named(call: Call) -> NamedSession:
    body: KillBody = call.body
    session = call.named
    await call.sandbox.wake()
    await session.kill(body.signum, body.grace)
    return NamedSession(call.sandbox.named.info(session))


async def resume(call: Call) -> Resumed:
    resumed = await call.sandbox.resume()
    return Resumed(call.sandbox.id, not resumed)
