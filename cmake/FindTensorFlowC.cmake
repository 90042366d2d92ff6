# SPDX-License-Identifier: Apache-2.0
# FindTensorFlowC: TensorFlow's C headers and libtensorflow_cc.so.2, as the wheels `tensorflow` and `tensorflow-cpu` have them.
#
# TENSORFLOW_ROOT, a variable of CMake's or of the environment, names the folder `tensorflow` of an installed package. Without it
# the package is that of HOOKSESS_PYTHON, or else of the Python on the path, which is asked where it is and not made to import it.
#
# TensorFlowC_FOUND, TensorFlowC_ROOT, TensorFlowC_INCLUDE_DIR, TensorFlowC_LIBRARY; the target TensorFlowC::headers. The
# library is loaded at run time, so nothing is linked with it.
set(TensorFlowC_ROOT_HINT "")
if(TENSORFLOW_ROOT)
  set(TensorFlowC_ROOT_HINT ${TENSORFLOW_ROOT})
elseif(DEFINED ENV{TENSORFLOW_ROOT})
  set(TensorFlowC_ROOT_HINT $ENV{TENSORFLOW_ROOT})
else()
  if(HOOKSESS_PYTHON)
    set(TensorFlowC_python ${HOOKSESS_PYTHON})
  else()
    find_program(TensorFlowC_PYTHON NAMES python3 python)
    mark_as_advanced(TensorFlowC_PYTHON)
    set(TensorFlowC_python ${TensorFlowC_PYTHON})
  endif()
  if(TensorFlowC_python)
    execute_process(
      COMMAND
        ${TensorFlowC_python} -c
        "import importlib.util as u; s = u.find_spec('tensorflow'); print(list(s.submodule_search_locations)[0] if s else '', end='')"
      OUTPUT_VARIABLE TensorFlowC_ROOT_HINT
      ERROR_QUIET)
  endif()
endif()

# A folder that was named later takes the place of one that was found before.
if(NOT "${TensorFlowC_ROOT_HINT}" STREQUAL "${TensorFlowC_ROOT}")
  unset(TensorFlowC_INCLUDE_DIR CACHE)
  unset(TensorFlowC_LIBRARY CACHE)
endif()
if(TensorFlowC_ROOT_HINT)
  find_path(TensorFlowC_INCLUDE_DIR tensorflow/c/c_api.h PATHS ${TensorFlowC_ROOT_HINT}/include NO_DEFAULT_PATH)
  find_file(TensorFlowC_LIBRARY libtensorflow_cc.so.2 PATHS ${TensorFlowC_ROOT_HINT} NO_DEFAULT_PATH)
endif()
set(TensorFlowC_ROOT "${TensorFlowC_ROOT_HINT}" CACHE INTERNAL "Where TensorFlow's package was found last")
mark_as_advanced(TensorFlowC_INCLUDE_DIR TensorFlowC_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TensorFlowC REQUIRED_VARS TensorFlowC_LIBRARY TensorFlowC_INCLUDE_DIR)

if(TensorFlowC_FOUND AND NOT TARGET TensorFlowC::headers)
  add_library(TensorFlowC::headers INTERFACE IMPORTED)
  set_target_properties(TensorFlowC::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${TensorFlowC_INCLUDE_DIR}"
                                                        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${TensorFlowC_INCLUDE_DIR}")
endif()
