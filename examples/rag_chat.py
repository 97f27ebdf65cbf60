"""Answer questions from a namespace by any model with OpenAI's API, and name the sources.

export RETRIEVAL_API_URL=… RETRIEVAL_API_KEY=… OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_API_KEY=none
python examples/rag_chat.py NAMESPACE_ID --model llama3.2
"""

from __future__ import annotations

import argparse
import os
import sys

from openai import OpenAI

from retrieval_client import RetrievalClient, SearchResults

INSTRUCTION = "Answer only from the numbered passages and cite them as [1]. If they do not contain the answer, say so."


def ask(model: OpenAI, name: str, question: str, hits: SearchResults) -> str:
    """Return the model's answer to the question from the found passages."""
    passages = "\n\n".join(f"[{number}] {hit.content}" for number, hit in enumerate(hits, 1))
    answer = model.chat.completions.create(
        model=name,
        messages=[
            {"role": "system", "content": INSTRUCTION},
            {"role": "user", "content": f"{passages}\n\nQuestion: {question}"},
        ],
    )
    return answer.choices[0].message.content or ""


def main() -> int:
    """Read questions from standard input, a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("namespace")
    parser.add_argument("--model", default="llama3.2")
    options = parser.parse_args()
    model = OpenAI()
    with RetrievalClient(os.environ["RETRIEVAL_API_URL"], os.environ["RETRIEVAL_API_KEY"]) as client:
        for question in sys.stdin:
            hits = client.search(options.namespace, question.strip(), hybrid=True, top_k=4)
            if not hits:
                print("Nothing was found.")
                continue
            print(ask(model, options.model, question.strip(), hits))
            for number, hit in enumerate(hits, 1):
                print(f"  [{number}] {hit.metadata['source']}  {hit.score:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
