# Runs FOLDER/units/carat-example.service under a manager of systemd, which ends with the service:
#   unshare --mount sh run_unit.sh FOLDER
# The machine itself may have been started by something else. The manager sees a namespace of its own with an empty group of
# processes, and as a manager of a user it needs no other service.
set -eu
folder=$1
groups=$folder/groups
own=$groups/carat-test-$$
mkdir -p "$groups"
mount -t cgroup2 none "$groups"
mkdir "$own"
leave() {
  echo $$ > "$groups/cgroup.procs"
  find "$own" -depth -type d -exec rmdir {} +
  umount "$groups"
}
trap leave EXIT
echo $$ > "$own/cgroup.procs"
# Without /run/systemd/system a manager does not start.
unshare --cgroup --mount --pid --fork --kill-child sh -euc '
  mount -t tmpfs none /run
  mkdir -p /run/systemd/system /run/user
  mount -t proc none /proc
  mount -t tmpfs none /sys/fs/cgroup
  mount -t cgroup2 none /sys/fs/cgroup
  env -i PATH="$PATH" HOME="$1" XDG_RUNTIME_DIR=/run/user SYSTEMD_UNIT_PATH="$1/units" \
    /lib/systemd/systemd --user --unit=carat-example.service || exit' sh "$folder"
