#!/bin/sh
# bare-wheel.sh: the wheel of dist/ on a bare machine with Python and PyTorch; tests/clean-root.sh runs it inside one (as root):
#     CLEAN_BRING=dist tests/clean-root.sh tests/bare-wheel.sh        (make test-bare)
# An account without rights installs the wheel into a virtual environment, `muster run` trains on two ranks and saves a model:
# it says how many seconds pass until the first step, that the model is in the folder, and what is left after `muster stop --all`.
# There is no compiler, no kubectl and no root in it.
set -eu
goal_s=30
user=student
wheel=$(ls dist/*_"$(uname -m)".whl | tail -n 1)
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install --no-install-recommends python3-torch python3-venv > /tmp/apt.log 2>&1 || { tail -n 20 /tmp/apt.log; exit 1; }
id $user > /dev/null 2>&1 || useradd --create-home $user
home=$(getent passwd $user | cut -d: -f6)
rm -rf "$home/project" "$home/venv" "$home/.local"
install -d -o $user -g $user "$home/project"
cp "$wheel" "$home/"
cat > "$home/project/train.py" << 'END'
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(20):
    loss = (model(torch.ones(4, 8) * (dist.get_rank() + 1)) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    if step == 0:
        print("first step at", time.time(), flush=True)
if dist.get_rank() == 0:
    torch.save(model.state_dict(), "model.pt")
dist.destroy_process_group()
END
cat > "$home/play.sh" << 'END'
set -eu
cd ~
python3 -m venv --system-site-packages venv
venv/bin/pip install --quiet --no-index --no-deps ./*.whl
PATH=$HOME/venv/bin:$PATH
cd project
date +%s.%N > ../began
muster run --gpus 2 train.py > ../out 2> ../err || { cat ../out ../err; exit 1; }
muster stop --all
END
as_user() { setpriv --reuid=$user --regid=$user --init-groups env -i HOME="$home" PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$@"; }
as_user sh "$home/play.sh"
seconds=$(awk -v began="$(cat "$home/began")" '/first step at/ { s = $NF - began; if (!best || s < best) best = s }
    END { printf "%.1f", best }' "$home/out")
steps=$(grep -c "first step at" "$home/out")
system=$(. /etc/os-release; echo "$PRETTY_NAME")
echo "bare-wheel: $system, $(basename "$wheel"): first step after $seconds s of 'muster run' (goal $goal_s s)"
ls -l "$home/project/model.pt"
[ "$steps" = 2 ] || { echo "bare-wheel: $steps ranks trained, not 2"; cat "$home/out" "$home/err"; exit 1; }
awk -v s="$seconds" -v goal=$goal_s 'BEGIN { exit !(s > 0 && s <= goal) }' || { echo "bare-wheel: later than the goal"; exit 1; }
left=$(ps -u $user -o args= 2> /dev/null || true)
[ -z "$left" ] || { echo "bare-wheel: processes are left: $left"; exit 1; }
left=$(find "$home" -path "$home/venv" -prune -o \( -name '*muster*' ! -name '*.whl' \) -print)
[ -z "$left" ] || { echo "bare-wheel: files are left: $left"; exit 1; }
echo "bare-wheel: nothing is left after muster stop --all"
