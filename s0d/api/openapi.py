"""`/openapi.json`: OpenAPI 3.1, made of the table of routes and of the types that serve.

Nothing is written for it alone: bodies, answers and parameters are those that requests are decoded
by, error statuses those of `errors`, summaries the handlers' own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from quart import Response

import s0d
from s0d.model import ids
from s0d.wire import named
from s0d.wire.envelope import to_json
from s0d.wire.problem import CODES, CONTENT_TYPE, PREFIX

from . import token_file
from .call import Call
from .errors import STATUS
from .params import Param

if TYPE_CHECKING:
    from .route import Route

Schema = dict[str, Any]

_REF: Final = "#/components/schemas/{name}"
_VARIABLES: Final = {
    "sandbox_id": ids.SANDBOX,
    "session_id": ids.SESSION,
    "session_name": named.NAME,
    "token_name": token_file.NAME,
}
_JSON: Final = "application/json"


async def get_openapi(call: Call) -> Response:
    """This document."""
    return Response(encoded(), content_type=_JSON)


@functools.cache
def encoded() -> bytes:
    return to_json(document())


def document() -> Schema:
    """The document, as builtin objects."""
    from .routes import routes  # it has a route to here

    table = routes()
    types = list(dict.fromkeys(t for route in table for t in _types(route)))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, Schema] = {}
    for route in table:
        path = re.sub(r"<(\w+)>", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "s0d",
            "version": s0d.__version__,
            "summary": "Durable, replayable process sessions",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                _response_name(status, problem): _error_response(status, problem)
                for status in sorted(set(STATUS.values()))
                for problem in (False, True)
            },
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types(route: Route) -> Iterable[Any]:
    if route.body is not None:
        yield route.body.type
    if route.answer is not None:
        yield _documented(route.answer)


def _documented(answer: Any) -> Any:
    """An answer that is encoded by hand says which type it looks like."""
    return getattr(answer, "looks_like", answer)


def _operation(route: Route, schema_of: dict[Any, Schema]) -> Schema:
    made: Schema = {
        "operationId": _operation_id(route),
        "summary": _summary(route),
        "parameters": [*_variables(route.path), *map(_parameter, route.params)],
        "responses": _responses(route, schema_of),
    }
    if route.verb is None:
        made["security"] = []
    else:
        made["x-role"] = route.verb.role
    if route.body is not None:
        made["requestBody"] = {
            "required": route.body.absent is None,
            "content": {_JSON: {"schema": schema_of[route.body.type]}},
        }
    return made


def _operation_id(route: Route) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", route.path.lower()).strip("_")
    return f"{route.method.lower()}_{words}"


def _summary(route: Route) -> str:
    said = (route.handler.__doc__ or "").strip().partition("\n")[0]
    return said or route.handler.__name__.replace("_", " ").capitalize()


def _variables(path: str) -> list[Schema]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": f"^{_VARIABLES[name]}$"},
        }
        for name in re.findall(r"<(\w+)>", path)
    ]


def _parameter(param: Param) -> Schema:
    return {
        "name": param.name,
        "in": "header" if param.header else "query",
        "required": False,
        "schema": param.schema,
    }


def _responses(route: Route, schema_of: dict[Any, Schema]) -> Schema:
    problem = route.path.startswith(PREFIX)
    good = _good(route, schema_of)
    made: Schema = {str(status): good for status in (route.success, *route.others)}
    if "304" in made:
        made["304"] = {"description": "It is still what If-None-Match says"}
    for status in sorted(set(STATUS.values())):
        name = _response_name(status, problem)
        made[str(status)] = {"$ref": f"#/components/responses/{name}"}
    return made


def _good(route: Route, schema_of: dict[Any, Schema]) -> Schema:
    content: Schema = {
        media: {"schema": {} if media == _JSON else {"type": "string"}} for media in route.types
    }
    if route.answer is not None:
        schema = schema_of[_documented(route.answer)]
        content[_JSON] = {"schema": schema if _is_bare(route) else _enveloped(schema)}
    made: Schema = {"description": _summary(route)}
    return {**made, "content": content} if content else made


def _is_bare(route: Route) -> bool:
    return route.path.startswith(PREFIX)


def _enveloped(schema: Schema) -> Schema:
    return {
        "type": "object",
        "required": ["success", "data"],
        "properties": {"success": {"const": True}, "data": schema},
    }


def _response_name(status: int, problem: bool) -> str:
    return f"problem{status}" if problem else f"error{status}"


def _error_response(status: int, problem: bool) -> Schema:
    codes = [code for code, at in STATUS.items() if at == status]
    text = {"type": "string"}
    if problem:
        codes = [CODES.get(code, code) for code in codes]
        fields: Schema = {
            "type": text,
            "title": text,
            "status": {"const": status},
            "code": {"enum": codes},
            "detail": text,
            "details": {"type": "object"},
        }
        schema = {"type": "object", "required": list(fields)[:-1], "properties": fields}
    else:
        fields = {"code": {"enum": codes}, "message": text, "details": {"type": "object"}}
        error = {"type": "object", "required": ["code", "message"], "properties": fields}
        schema = {
            "type": "object",
            "required": ["success", "error"],
            "properties": {"success": {"const": False}, "error": error},
        }
    media = CONTENT_TYPE if problem else _JSON
    return {"description": ", ".join(codes), "content": {media: {"schema": schema}}}
