"""A command whose output is kept until it has ended (wire contract, section 4)."""

from __future__ import annotations

from s0d.supervisor.exec import buffered
from s0d.wire.exec import ExecAnswer, ExecBody, encode_output
from s0d.wire.named import exit_info

from .call import Call


async def execute(call: Call) -> ExecAnswer:
    """Also a command that failed is an answer; a client that hangs up ends it."""
    body: ExecBody = call.body
    spec, stdin, seconds = body.spec(), body.stdin(), body.timeout
    result = await call.sandbox.execs.run(spec, lambda launch, _: buffered(launch, stdin, seconds))
    status = exit_info(result.status.exit_code, result.status.signal)
    out, err = result.stdout, result.stderr
    answer = ExecAnswer(
        exit_code=status.exit_code,
        signaled=status.signaled,
        timed_out=result.timed_out,
        stdout=encode_output(bytes(out.data), body.encoding, truncated=out.truncated),
        stderr=encode_output(bytes(err.data), body.encoding, truncated=err.truncated),
        stdout_truncated=out.truncated,
        stderr_truncated=err.truncated,
        output_encoding=body.encoding,
    )
    if status.signaled:
        answer.signal = status.signal
    return answer
