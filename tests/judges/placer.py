"""placer: is there any placement of these pods? Every one is tried, so the answer is right, and small clusters are needed."""

STEPS_MAX = 4000  # of one question; what needs more is counted as not decided


class Cut(Exception):
    pass


def place(state, pods, group):
    """True: they fit, and `state` has them; False: there is no placement. Raises Cut where the search was too long."""
    in_order = any(p.in_order for p in pods)
    waiting = sorted(pods, key=lambda p: (-p.gpus, -p.cpu, p.shape))
    names = list(state.rooms)
    steps = 0

    def search(left, last):
        nonlocal steps
        if not left:
            return True
        tried = set()
        for index, pod in enumerate(left):
            if pod.shape in tried:
                continue
            if tried and not in_order:
                break
            tried.add(pod.shape)
            rest = left[:index] + left[index + 1:]
            # Pods that are alike take nodes in order: the other way round is the same placement.
            begin = last[1] if last and last[0] == pod.shape and not in_order else 0
            for number in range(begin, len(names)):
                steps += 1
                if steps > STEPS_MAX:
                    raise Cut()
                choices = state.choices(pod, names[number])
                if not choices or not state.fits(pod, names[number], group):
                    continue
                for devices in choices:
                    state.put(pod, names[number], devices)
                    if search(rest, (pod.shape, number)):
                        return True
                    state.take(pod)
        return False

    return search(waiting, None)
