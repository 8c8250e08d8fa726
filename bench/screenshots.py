"""Write docs/images/ui-*.png: each view of the dashboard on the sample store. `make screenshots`.

python -m bench.screenshots [--only explorer,playground] [--width 360] [--theme dark] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

from bench import sample
from bench.browser import chromium, dashboard, served
from salience.records import ANY

PAGES: Final = {
    "explorer": "/ui/",
    "recall": "/ui/?mode=recall&q=What+language+does+Alice+like%3F",
    "playground": "/ui/playground?q=Which+language+does+Alice+prefer%3F&user_id=alice&project=atlas&agent_id=coder",
    "why": "/ui/why?q=What+language+does+Alice+like%3F&user_id=alice&profile=zeromemory&limit=1&memory={id}",
    "compare": "/ui/compare?q=What+language+does+Alice+like%3F&user_id=alice&project=atlas&agent_id=coder",
    "memory": "/ui/memory/{id}",
    "time": "/ui/time",
    "tiers": "/ui/tiers",
    "inbox": "/ui/inbox",
    "graph": "/ui/graph?entity=Alice",
    "graph-memory": "/ui/graph?memory={id}",
    "entities": "/ui/graph",
    "sessions": "/ui/sessions",
    "transcript": "/ui/sessions/transcript?id=standup-0421",
    "recalls": "/ui/recalls",
    "trace": "/ui/recalls/{recall}",
    "operations": "/ui/operations",
    "profiles": "/ui/profiles",
    "profile": "/ui/profiles?profile=salience",
    "profile-edit": "/ui/profiles/edit?profile=memorysync&q=What+language+does+Alice+like%3F",
}
"""Name of the image -> path and query; `{id}` is the memory that Alice prefers Rust, `{recall}` the last recall."""


def main() -> None:
    """Take the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--only", default=",".join(PAGES))
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--whole", action="store_true", help="the whole page, not the first screen")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sample.opened(f"{folder}/sample.db") as engine:
        page = engine.list(user_id="alice", project="atlas", agent_id="coder", limit=1000)
        chosen = next(one.id for one in page.memories if one.content.startswith("Alice now prefers"))
        recall = engine.recalls(limit=1, project=ANY, user_id=ANY, agent_id=ANY).recalls[0].id
        with served(dashboard(engine, target=f"{folder}/sample.db")) as url, chromium() as browser:
            window = {"width": given.width, "height": 900 if given.width > 600 else 780}
            context = browser.new_context(viewport=window, color_scheme=given.theme, device_scale_factor=1)  # type: ignore[arg-type]
            tab = context.new_page()
            tab.on("console", lambda message: print("console:", message.text))
            for name in given.only.split(","):
                tab.goto(url + PAGES[name].format(id=chosen, recall=recall), wait_until="networkidle")
                tab.screenshot(path=given.out / f"ui-{name}.png", full_page=given.whole)


if __name__ == "__main__":
    main()
