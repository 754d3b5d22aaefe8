#!/bin/sh
# Runs one pipeline on the hosts of a file, one rank for each host: tools/launch/mpirun.sh HOSTS FILE [options of pipeline-run]
# HOSTS has a line for each host: "node-1 slots=1". Every host needs Millrace at the same path, and the data and the folder of
# runs at the same place. Ranks meet in that folder; they compute like one process with all devices.
set -eu
hosts=$1
shift
exec mpirun --hostfile "$hosts" --map-by ppr:1:node --bind-to none pipeline-run "$@"
