"""Run an agent's loop with the service's MCP tools: the model calls tools until the answer is ready.

export RETRIEVAL_API_URL=… RETRIEVAL_API_KEY=… OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_API_KEY=none
python examples/mcp_agent.py "How do I open the cover?" --model llama3.2
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from openai import AsyncOpenAI

STEPS = 8


async def answer(question: str, model: str) -> str:
    """Return the model's answer after all tool calls."""
    headers = {"Authorization": f"Bearer {os.environ['RETRIEVAL_API_KEY']}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{os.environ['RETRIEVAL_API_URL']}/mcp", http_client=http)) as service,
    ):
        offered = (await service.list_tools()).tools
        described = [{"name": t.name, "description": t.description, "parameters": t.input_schema} for t in offered]
        tools = [{"type": "function", "function": one} for one in described]
        messages = [
            {"role": "system", "content": "Answer from what the tools find, and name the documents that you used."},
            {"role": "user", "content": question},
        ]
        for _ in range(STEPS):
            asked = await AsyncOpenAI().chat.completions.create(model=model, messages=messages, tools=tools)
            said = asked.choices[0].message
            if not said.tool_calls:
                return said.content or ""
            messages.append(said.model_dump(exclude_none=True))
            for call in said.tool_calls:
                done = await service.call_tool(call.function.name, json.loads(call.function.arguments))
                text = "\n".join(part.text for part in done.content if part.type == "text")
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return "No answer was found within the steps that are allowed."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question")
    parser.add_argument("--model", default="llama3.2")
    options = parser.parse_args()
    print(asyncio.run(answer(options.question, options.model)))
