# Parameters are updated by the plugin's optimizer; and a mistake in the optimizer's keys.
include(${SOURCE}/training.cmake)
if(skipped)
  return()
endif()
train_everywhere(train.optimizer.type=qhm train.optimizer.learning_rate=1 run.epochs=40)
execute_process(COMMAND ${PREFIX}/bin/pipeline-run ${SOURCE}/sepia.toml --set data.path=${images}
  --set train.optimizer.type=qhm --set train.optimizer.bata=0.5 RESULT_VARIABLE code ERROR_VARIABLE said)
if(NOT code EQUAL 2 OR NOT said MATCHES "has no key 'bata'; nearest is 'beta'")
  message(FATAL_ERROR "a wrong key of the optimizer ended with code ${code}:\n${said}")
endif()
