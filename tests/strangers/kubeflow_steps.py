"""Steps of a script that plays an SDK: each is a line `result: NAME: ok` or `result: NAME: what went wrong`."""

import traceback


class Steps:
    def __init__(self):
        self.bad = False

    def __call__(self, name, step):
        """Run one; what it returns, or None when it went wrong."""
        try:
            value = step()
            print(f"result: {name}: ok", flush=True)
            return value
        except Exception as e:
            traceback.print_exc()
            print(f"result: {name}: {type(e).__name__} {str(e).splitlines()[:1]}", flush=True)
            self.bad = True
            return None


def expect(condition, words):
    if not condition:
        raise AssertionError(words)
