# slurm.sh ROOT BUILD: when tools/launch/slurm.sbatch makes Slurm requeue the job. srun and scontrol are simulated.
script=$1/tools/launch/slurm.sbatch
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
mkdir bin
cat > bin/srun <<'S'
#!/bin/sh
for each in $WRITES; do echo "{\"event\":\"$each\",\"step\":1}"; done
exit "$ENDS"
S
printf '#!/bin/sh\necho "$*" >> queued\n' > bin/scontrol
chmod +x bin/srun bin/scontrol
PATH=$folder/bin:$PATH
export PATH
failed=0
# job NUMBER CODE EVENTS: starts it once. Prints whether it was requeued.
job() {
  : > queued
  SLURM_JOB_ID=$1 ENDS=$2 WRITES=$3 bash "$script" file.toml 2> said
  code=$?
  [ $code -eq "$2" ] || { echo "exit code $code instead of $2" >&2; failed=1; }
  case $(cat queued) in "requeue $1") echo again ;; "") echo over ;; *) echo "scontrol $(cat queued)" ;; esac
}
expect() {
  [ "$2" = "$3" ] || { echo "$1: $2, expected $3" >&2; failed=1; }
}
for code in 0 1 2 3 4 134 139; do expect "exit code $code" "$(job "code$code" $code "step checkpoint")" over; done
for code in 75 129 130 137 138 143 152; do expect "exit code $code" "$(job "code$code" $code step)" again; done
for time in 1 2 3 4 5 6; do expect "stop $time with a checkpoint" "$(job saves 143 "step checkpoint end")" again; done
for time in 1 2 3; do expect "failure $time" "$(job fails 137 step)" again; done
expect "failure 4" "$(job fails 137 step)" over
grep -q "queued 3 times without a new checkpoint" said || { echo "it does not say why: $(cat said)" >&2; failed=1; }
expect "after a checkpoint" "$(job fails 75 "step checkpoint")" again
expect "and a failure" "$(job fails 75 step)" again
exit $failed
