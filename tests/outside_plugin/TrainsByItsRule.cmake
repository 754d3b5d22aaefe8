# A training run on the CPU that updates by the rule, with a falling loss; and a mistake in the rule's keys.
if(NOT EXISTS ${PREFIX}/bin/pipeline-data)
  message("skipped: pipeline-data is not built here")
  return()
endif()
set(ENV{MILLRACE_PLUGIN_PATH} ${PLUGINS})
execute_process(COMMAND ${PREFIX}/bin/pipeline-inspect devices OUTPUT_VARIABLE devices)
if(NOT devices MATCHES "cpu:0")
  message("skipped: there is no device to train on")
  return()
endif()

set(images ${WORK}/rule_images)
file(REMOVE_RECURSE ${images})
execute_process(COMMAND ${PREFIX}/bin/pipeline-data shapes ${images} --size 16 --count 40 --validation 10
  COMMAND_ERROR_IS_FATAL ANY)
set(run ${PREFIX}/bin/pipeline-run ${SOURCE}/sepia.toml --json --set data.root=${images} --set run.devices=cpu
  --set train.optimizer.rule=lion)
execute_process(COMMAND ${run} --set train.optimizer.learning_rate=0.01 --set run.epochs=20 OUTPUT_VARIABLE events
  COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\"event\": *\"step\"[^\n]*\"loss\": *[0-9.]+" losses "${events}")
list(GET losses 0 first)
list(GET losses -1 last)
string(REGEX REPLACE ".*\"loss\": *" "" first "${first}")
string(REGEX REPLACE ".*\"loss\": *" "" last "${last}")
if(NOT last LESS first)
  message(FATAL_ERROR "the loss went from ${first} to ${last}:\n${events}")
endif()

execute_process(COMMAND ${run} --set train.optimizer.beta3=0.5 RESULT_VARIABLE code ERROR_VARIABLE said)
if(NOT code EQUAL 2 OR NOT said MATCHES "has no key 'beta3'; nearest is 'beta[12]'")
  message(FATAL_ERROR "a wrong key of the rule ended with code ${code}:\n${said}")
endif()
