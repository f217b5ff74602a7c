"""How a rank calls speak_in_order."""

from utils.trace.spans import mark


def call(fn, inputs: dict, group):
    """fn(say, text, group): say(text) prints and leaves a mark in the trace."""

    def say(text):
        mark("say", text=str(text))
        print(text, flush=True)

    return fn(say, inputs["text"], group)
