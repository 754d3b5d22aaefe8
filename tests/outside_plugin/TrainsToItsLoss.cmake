# The plugin's loss is minimised; and mistakes in its table.
include(${SOURCE}/training.cmake)
if(skipped)
  return()
endif()
train_everywhere(train.forward_backward.loss=poly train.optimizer.learning_rate=0.2 run.epochs=40)
execute_process(COMMAND ${PREFIX}/bin/pipeline-run ${SOURCE}/sepia.toml --set data.path=${images}
  --set "train.forward_backward.loss={ type = \"poly\", epsilom = 1 }" RESULT_VARIABLE code ERROR_VARIABLE said)
if(NOT code EQUAL 2 OR NOT said MATCHES "'epsilom'.*nearest is 'epsilon'")
  message(FATAL_ERROR "a wrong key of the loss ended with code ${code}:\n${said}")
endif()
execute_process(COMMAND ${PREFIX}/bin/pipeline-run ${SOURCE}/sepia.toml --set data.path=${images}
  --set train.forward_backward.loss=polly RESULT_VARIABLE code ERROR_VARIABLE said)
if(NOT code EQUAL 2 OR NOT said MATCHES "unknown loss 'polly'; nearest is 'poly'")
  message(FATAL_ERROR "a loss that is not there ended with code ${code}:\n${said}")
endif()
