"""A hook of MkDocs: the site has the OpenAPI document beside the reference of the REST API."""

from __future__ import annotations

import json

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tools.reference import openapi


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add reference/openapi.json."""
    files.append(File.generated(config, "reference/openapi.json", content=json.dumps(openapi(), indent=1)))
    return files
