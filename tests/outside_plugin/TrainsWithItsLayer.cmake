# Training runs through the layer: on the CPU in both precisions, and on the simulated GPU, which checks what its kernels touch. The
# loss falls, and the GPU's is the CPU's.
if(NOT EXISTS ${PREFIX}/bin/pipeline-data)
  message("skipped: pipeline-data is not built here")
  return()
endif()
set(ENV{MILLRACE_PLUGIN_PATH} ${PLUGINS}:${SIMULATED})
execute_process(COMMAND ${PREFIX}/bin/pipeline-inspect devices OUTPUT_VARIABLE devices)
if(NOT devices MATCHES "cpu:0")
  message("skipped: there is no device to train on")
  return()
endif()

set(images ${WORK}/layer_images)
file(REMOVE_RECURSE ${images})
execute_process(COMMAND ${PREFIX}/bin/pipeline-data shapes ${images} --size 16 --count 40 --validation 10
  COMMAND_ERROR_IS_FATAL ANY)

# Sets RESULT to the losses of the first and the last step.
function(train result program device precision)
  execute_process(COMMAND ${program} ${SOURCE}/sepia.toml --json --set data.root=${images} --set run.devices=${device}
    --set run.precision=${precision} --set network.use=${SOURCE}/mish_network.toml --set train.optimizer.learning_rate=0.1
    --set run.epochs=15 OUTPUT_VARIABLE events COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "\"event\": *\"step\"[^\n]*\"loss\": *[0-9.]+" losses "${events}")
  list(TRANSFORM losses REPLACE ".*\"loss\": *" "")
  list(GET losses 0 first)
  list(GET losses -1 last)
  if(NOT last LESS first)
    message(FATAL_ERROR "on ${device} in ${precision} the loss went from ${first} to ${last}:\n${events}")
  endif()
  set(${result} ${first} ${last} PARENT_SCOPE)
endfunction()

train(on_cpu ${PREFIX}/bin/pipeline-run cpu fp32)
if(devices MATCHES "bf16")
  train(in_bf16 ${PREFIX}/bin/pipeline-run cpu bf16)
endif()
# The simulation is no part of the install tree: it runs with the programs that it was built with.
train(simulated ${BUILT}/pipeline-run simulated fp32)
foreach(at 0 1)
  list(GET on_cpu ${at} here)
  list(GET simulated ${at} there)
  string(SUBSTRING ${here} 0 6 here)
  string(SUBSTRING ${there} 0 6 there)
  if(NOT here STREQUAL there)
    message(FATAL_ERROR "the CPU's loss is ${here}, the simulated GPU's ${there}")
  endif()
endforeach()
