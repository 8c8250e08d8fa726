"""Chat with a language model that remembers: recall before each answer, remember after it.

pip install ".[llm]"
OPENAI_API_KEY=... python examples/chat.py
OPENAI_BASE_URL=http://localhost:11434/v1 OPENAI_API_KEY=none MODEL=llama3.2 python examples/chat.py
"""

import os
import sys
from datetime import UTC, datetime

import openai

import salience

SYSTEM = "You are a helpful assistant. Use the memories below where they help; say so if you do not know.\n"


def main() -> None:
    model = openai.OpenAI()  # reads OPENAI_API_KEY and OPENAI_BASE_URL
    name = os.environ.get("MODEL", "gpt-4.1-mini")
    session = f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    recent: list[dict[str, str]] = []  # what the model sees of this conversation; the rest is recalled
    with salience.connect("chat.db") as memory:
        print("> ", end="", flush=True)
        for line in sys.stdin:
            question = {"role": "user", "content": line.strip()}

            found = memory.context(question["content"], user_id="me", budget_tokens=1000)
            for hit in found.hits:
                parts = " + ".join(f"{part.signal} {part.contribution:.2f}" for part in hit.score_detail.parts)
                print(f"  {hit.score:.2f} {hit.memory.content} ({parts})")

            prompt = [{"role": "system", "content": SYSTEM + found.text}, *recent, question]
            completion = model.chat.completions.create(model=name, messages=prompt)
            answer = {"role": "assistant", "content": completion.choices[0].message.content or ""}
            print(answer["content"])

            memory.ingest([question, answer], user_id="me", session_id=session)
            recent = [*recent, question, answer][-6:]
            print("> ", end="", flush=True)


if __name__ == "__main__":
    main()
