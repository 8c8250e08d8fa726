"""Users chat with an assistant that remembers what each of them said, and tells nobody about another one.

echo 'ann: I live in Berlin' | python examples/two_users.py
echo 'ann: Where do I live?' | python examples/two_users.py
"""

import sys

import salience


def answer(question: str, memories: salience.Context) -> str:
    """Stand-in for your language model: give it the question, and `memories.text` in its system prompt."""
    if not memories.confident:
        return f"Nobody told me: {question}"
    return f"You told me: {memories.hits[0].memory.content}"


def chat(memory: salience.Verbs, user: str, line: str) -> str:
    """Return the answer to a line of a user; store the line, unless it is a question."""
    if line.endswith("?"):
        return answer(line, memory.context(line, user_id=user, budget_tokens=1000))
    receipt = memory.remember(line, user_id=user)
    if receipt.superseded is None:
        return "Noted."
    return f"Noted. Until now it was: {memory.get(receipt.superseded, user_id=user).content}"


def main() -> None:
    """Read lines such as `ann: I live in Berlin`."""
    with salience.connect("chat.db") as memory:
        for line in sys.stdin:
            user, _, text = line.strip().partition(": ")
            print(f"{user}: {text}\n  {chat(memory, user, text)}", flush=True)


if __name__ == "__main__":
    main()
