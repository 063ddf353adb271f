"""The tools, served by the `mcp` package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool

import s0d

from .calls import Calls
from .tools import INSTRUCTIONS, TOOLS, call

Context = ServerRequestContext[Any, Any]


def make_server(calls_of: Callable[[Any], Calls]) -> Server[Any]:
    """A server; `calls_of` gives the daemon for a request (None but for HTTP)."""
    listed = [
        ListedTool(
            name=tool.name,
            description=tool.description,
            input_schema=tool.schema(),
            annotations=ToolAnnotations(
                read_only_hint=tool.reads, destructive_hint=tool.ends, open_world_hint=tool.ends
            ),
        )
        for tool in TOOLS
    ]

    async def list_tools(
        context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        text, failed = await call(calls_of(context.request), params.name, params.arguments)
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=failed)

    return Server(
        "s0d",
        version=s0d.__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
