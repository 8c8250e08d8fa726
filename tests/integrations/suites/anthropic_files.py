"""Plugin of pytest for the tests of the memory tools in the Anthropic SDK: ours take the place of those on disk.

The tests write and read the files of the tool themselves, so each tool here copies its files to and from a directory.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import anthropic.lib.tools._beta_builtin_memory_tool as replaced
import anyio
from common import leave_out, new_memory

from salience.integrations.anthropic import AsyncSalienceMemoryTool, SalienceMemoryTool


class Mirror:
    """The commands of a tool, with its files on disk before and after each."""

    def __init__(self, commands, base):
        self.commands, self.base = commands, Path(base)

    def run(self, command):
        files = self.commands.files
        for found in self.base.rglob("*"):
            path = f"/{found.relative_to(self.base)}"
            if found.is_file() and not files.exists(path):
                files.create(path, found.read_bytes().decode())
        try:
            return self.commands.run(command)
        finally:
            shutil.rmtree(self.base / "memories")
            (self.base / "memories").mkdir()
            for head in files.heads():
                target = self.base / head.metadata["path"][1:]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(files.read(head.metadata["path"]).text.encode())


def mirrored(tool, path_type):
    class Mirrored(tool):
        def __init__(self, base_path):
            super().__init__(new_memory(), user_id="alice")
            self._commands = Mirror(self._commands, base_path)
            self.base_path, self.memory_root = path_type(base_path), path_type(base_path) / "memories"
            Path(self.memory_root).mkdir()

    return Mirrored


replaced.BetaLocalFilesystemMemoryTool = mirrored(SalienceMemoryTool, Path)
replaced.BetaAsyncLocalFilesystemMemoryTool = mirrored(AsyncSalienceMemoryTool, anyio.Path)

LEFT_OUT = {
    "_symlink": "symbolic links, which memories do not have",
    "_under_permissive_umask": "modes of directories on disk",
}
"""Part of the id of a test -> why it is left out."""


def pytest_collection_modifyitems(config, items):
    leave_out(config, items, LEFT_OUT)
