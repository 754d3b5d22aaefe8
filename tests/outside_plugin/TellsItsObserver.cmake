# The plugin's observer receives events, may stop the run, and is selected by its table; and a mistake in that.
include(${SOURCE}/training.cmake)
if(skipped)
  return()
endif()
set(journal ${WORK}/journal.txt)

# run(EXPECTED SETTING...): the journal of a run with these settings equals this text, in which a dot stands for any digit.
function(run expected)
  list(TRANSFORM ARGN PREPEND "--set=" OUTPUT_VARIABLE settings)
  execute_process(COMMAND ${PREFIX}/bin/pipeline-run ${SOURCE}/sepia.toml --quiet --set data.path=${images} --set run.devices=cpu
    --set observe.journal.file=${journal} ${settings} COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${journal} written)
  if(NOT written MATCHES "^${expected}$")
    message(FATAL_ERROR "the journal is not '${expected}':\n${written}")
  endif()
endfunction()

set(figures ", loss [0-9.]+, accuracy [0-9.]+")
run("sepia begins: 4 steps\nstep 1${figures}\nstep 2${figures}\nstep 3${figures}\nstep 4${figures}\nepoch 1 took [0-9.]+ s\nthe end, after 4 steps\n")
run("sepia begins: 400 steps\nstep 1${figures}\n.*stop, as observer journal asked\nthe end, after [0-9]+ steps\n"
  run.epochs=100 observe.journal.lowest_loss=100)

execute_process(COMMAND ${PREFIX}/bin/pipeline-run ${SOURCE}/sepia.toml --set data.path=${images}
  --set observe.journal.fiel=x RESULT_VARIABLE code ERROR_VARIABLE said)
if(NOT code EQUAL 2 OR NOT said MATCHES "has no key 'fiel'; nearest is 'file'")
  message(FATAL_ERROR "a wrong key of the observer ended with code ${code}:\n${said}")
endif()
execute_process(COMMAND ${PREFIX}/bin/pipeline-run ${SOURCE}/sepia.toml --set data.path=${images}
  --set observe.jounal=true RESULT_VARIABLE code ERROR_VARIABLE said)
if(NOT code EQUAL 2 OR NOT said MATCHES "unknown observer 'jounal'; nearest is 'journal'")
  message(FATAL_ERROR "an observer that is not there ended with code ${code}:\n${said}")
endif()
