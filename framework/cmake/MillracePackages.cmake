# Packages: `cpack --preset release` writes Debian packages and an archive for any folder into build/release/packages. An
# installed file belongs to one component, and each component is one Debian package; the archive holds all of them. The
# component "testkit" is left out, which only authors of plugins need, with a build with tests.
configure_file(tools/packaging/licences.txt ${PROJECT_BINARY_DIR}/share/millrace/licences.txt COPYONLY)
install(FILES tools/packaging/licences.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/millrace)

# The licences' texts, as far as this machine has them: code of headers is compiled into our files.
file(STRINGS tools/packaging/licences.txt rows REGEX "^[^#]")
foreach(row IN LISTS rows)
  string(REGEX REPLACE "  +" ";" row "${row}")
  list(GET row 3 package)
  install(FILES /usr/share/doc/${package}/copyright RENAME ${package} OPTIONAL
    DESTINATION ${CMAKE_INSTALL_DATADIR}/millrace/licences)
endforeach()

# A package built on one release of Debian needs that release's libraries, so its version names the release: 0.1.0-1~debian12.
cmake_host_system_information(RESULT system QUERY DISTRIB_INFO)
set(release "${system_ID}${system_VERSION_ID}")

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME millrace)
set(CPACK_PACKAGE_CONTACT "The Millrace developers <millrace@localhost>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_FILE_NAME millrace-${PROJECT_VERSION}-${release}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~${release})
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # what a package's files are linked with
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR})  # libmillrace itself
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# millrace_package(COMPONENT PACKAGE SUMMARY [FIELD value]...): the fields are those of Debian, such as RECOMMENDS. Does nothing
# for a component that this build lacks.
get_cmake_property(CPACK_COMPONENTS_ALL COMPONENTS)
list(REMOVE_ITEM CPACK_COMPONENTS_ALL testkit)
function(millrace_package component package summary)
  if(NOT component IN_LIST CPACK_COMPONENTS_ALL)
    return()
  endif()
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}" PARENT_SCOPE)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "DEPENDS;RECOMMENDS;SUGGESTS;SECTION" "")
  foreach(field DEPENDS RECOMMENDS SUGGESTS SECTION)
    if(arg_${field})
      set(CPACK_DEBIAN_${upper}_PACKAGE_${field} "${arg_${field}}" PARENT_SCOPE)
    endif()
  endforeach()
  install(FILES LICENSE RENAME copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component} OPTIONAL)
endfunction()

set(same "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(development "millrace ${same}, libfmt-dev")
if(predict IN_LIST CPACK_COMPONENTS_ALL)
  string(APPEND development ", libmillrace-predict ${same}")
endif()
millrace_package(programs millrace "Training of vision networks from one file: programs and plugins"
  RECOMMENDS "fonts-dejavu-core, millrace-page" SUGGESTS "graphviz, millrace-cuda, millrace-mpi")
millrace_package(page millrace-page "The page of a run in a browser, and report.html" DEPENDS "millrace ${same}")
millrace_package(mpi millrace-mpi "Sums of gradients by MPI" DEPENDS "millrace ${same}")
millrace_package(cuda millrace-cuda "Training on NVIDIA's GPUs" DEPENDS "millrace ${same}" SECTION contrib/science
  RECOMMENDS "libcudnn9-cuda-13, libcublas-13-0, libnccl2")  # loaded at run time, from NVIDIA's own repository
millrace_package(predict libmillrace-predict "Predictions of trained models in other programs" SECTION libs
  DEPENDS "millrace ${same}")  # the library, and plugins of layers and backends
millrace_package(dev libmillrace-dev "Headers and CMake package" DEPENDS "${development}" SUGGESTS "cmake, g++"
  SECTION libdevel)
include(CPack)
