"""Language models behind OpenAI's chat protocol: how they are asked, how texts are quoted, how answers are read."""
