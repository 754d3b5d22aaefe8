# Trains a little with the install tree, builds the example against it, as C++ by find_package and as C by pkg-config, moves the run's
# folder, and compares what both print with --predict. PREFIX, LIBDIR, WORK, COMPILER, FLAGS
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
unset(ENV{MILLRACE_PLUGIN_PATH})

# run(OUT word...): OUT is what it prints.
function(run out)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

run(ignored ${PREFIX}/bin/pipeline-data shapes ${WORK}/shapes --count 100 --validation 20)
run(ignored ${PREFIX}/bin/pipeline-run ${PREFIX}/share/millrace/pipelines/quickstart.toml --quiet --set data.path=${WORK}/shapes
  --set run.folder=${WORK}/runs --set run.epochs=1 --set run.precision=fp32 --devices cpu)
file(GLOB_RECURSE images ${WORK}/shapes/test/*.jpg)
list(GET images 0 image)
file(GLOB weights ${WORK}/runs/quickstart/20*/weights.safetensors)
get_filename_component(folder ${weights} DIRECTORY)
file(RENAME ${folder} "${WORK}/a moved run")

run(ignored ${CMAKE_COMMAND} -S ${PREFIX}/share/millrace/examples/predict -B ${WORK}/build -D CMAKE_BUILD_TYPE=Release
  -D CMAKE_PREFIX_PATH=${PREFIX} -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS})
run(ignored ${CMAKE_COMMAND} --build ${WORK}/build)
file(STRINGS ${WORK}/build/CMakeCache.txt asked REGEX "^(CMAKE_CUDA_COMPILER|fmt_DIR)")
if(asked)
  message(FATAL_ERROR "a program that predicts needs no CUDA compiler and no fmt, and find_package has looked for it: ${asked}")
endif()
run(found ${WORK}/build/predict "${WORK}/a moved run" ${image})

# What --predict writes: path, label, the predicted class, and the score of each class.
run(ignored ${PREFIX}/bin/pipeline-run --predict ${image} --weights "${WORK}/a moved run" --out ${WORK}/found --devices cpu
  --set predict.write_classes.columns=classes)
file(STRINGS ${WORK}/found/predictions.csv rows)
list(GET rows 0 names)
list(GET rows 1 scores)
string(REPLACE "," ";" names "${names}")
string(REPLACE "," ";" scores "${scores}")
string(REGEX REPLACE "\n$" "" lines "${found}")
string(REPLACE "\n" ";" lines "${lines}")
list(LENGTH lines count)
if(NOT count EQUAL 10)
  message(FATAL_ERROR "expected ten classes, found ${count}: ${found}")
endif()
foreach(i RANGE 9)
  math(EXPR column "${i} + 3")
  list(GET lines ${i} line)
  list(GET names ${column} name)
  list(GET scores ${column} score)
  string(REGEX REPLACE "^(0\\.[0-9][0-9][0-9][0-9]).*" "\\1" start ${score})
  string(REPLACE "." "\\." start ${start})
  if(NOT line MATCHES "^${name} (${start}|0\\.)")
    message(FATAL_ERROR "expected ${name} ${score}, found ${line}")
  endif()
endforeach()

find_program(PKG_CONFIG pkg-config)
find_program(CC NAMES cc gcc clang)
if(PKG_CONFIG AND CC)
  set(ENV{PKG_CONFIG_PATH} ${PREFIX}/${LIBDIR}/pkgconfig)
  run(flags ${PKG_CONFIG} --cflags --libs millrace-predict)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(ignored ${CC} -std=c99 -Wall -Wextra -pedantic -Werror ${CMAKE_CURRENT_LIST_DIR}/plain_c.c -o ${WORK}/plain_c ${flags}
    -Wl,-rpath,${PREFIX}/${LIBDIR})
  run(plain ${WORK}/plain_c "${WORK}/a moved run" ${image})
  if(NOT plain STREQUAL found)
    message(FATAL_ERROR "in C: ${plain}, in C++: ${found}")
  endif()
endif()
