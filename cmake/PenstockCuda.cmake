# PENSTOCK_CUDA=auto|on|off: whether device-cuda is built. Sets PENSTOCK_HAVE_CUDA and
# PENSTOCK_CUDA_WHY; with on, what is missing ends the configuration. Sanitizers cannot look into
# NVIDIA's libraries, so auto means off under them.
set(PENSTOCK_CUDA auto CACHE STRING "Build the device module for NVIDIA GPUs: auto, on or off")
set_property(CACHE PENSTOCK_CUDA PROPERTY STRINGS auto on off)
set(PENSTOCK_CUDA_ARCHITECTURES "90" CACHE STRING
  "GPU architectures, as in CMAKE_CUDA_ARCHITECTURES: machine code and PTX, from one compilation")

function(penstock_find_cuda ret_why)
  find_program(PENSTOCK_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(NOT PENSTOCK_NVCC)
    set(${ret_why} "no nvcc in PATH or /usr/local/cuda/bin" PARENT_SCOPE)
    return()
  endif()
  get_filename_component(root ${PENSTOCK_NVCC} REALPATH)
  get_filename_component(root ${root} DIRECTORY)
  get_filename_component(root ${root} DIRECTORY)
  find_path(PENSTOCK_CUDA_INCLUDE cublasLt.h PATHS ${root}/include
    ${root}/targets/x86_64-linux/include)
  find_library(PENSTOCK_CUDART cudart PATHS ${root}/lib64 ${root}/targets/x86_64-linux/lib)
  find_library(PENSTOCK_CUBLASLT cublasLt PATHS ${root}/lib64 ${root}/targets/x86_64-linux/lib)
  foreach(need PENSTOCK_CUDA_INCLUDE PENSTOCK_CUDART PENSTOCK_CUBLASLT)
    if(NOT ${need})
      string(REPLACE "PENSTOCK_CUDA_INCLUDE" "cublasLt.h" what ${need})
      string(REPLACE "PENSTOCK_CUDART" "libcudart.so" what ${what})
      string(REPLACE "PENSTOCK_CUBLASLT" "libcublasLt.so" what ${what})
      set(${ret_why} "${PENSTOCK_NVCC} is there, ${what} is not" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${ret_why} "" PARENT_SCOPE)
endfunction()

# cuDNN is wanted, not needed: its header and library, or nothing, in PENSTOCK_CUDNN_INCLUDE and
# PENSTOCK_CUDNN. The library is opened at run time, so only its place is asked for here.
function(penstock_find_cudnn)
  get_filename_component(root ${PENSTOCK_CUDA_INCLUDE} DIRECTORY)
  find_path(PENSTOCK_CUDNN_INCLUDE cudnn.h PATHS ${PENSTOCK_CUDA_INCLUDE})
  find_library(PENSTOCK_CUDNN NAMES libcudnn.so.9 PATHS ${root}/lib64 ${root}/lib)
  if(NOT PENSTOCK_CUDNN_INCLUDE OR NOT PENSTOCK_CUDNN)
    set(PENSTOCK_CUDNN_INCLUDE "" PARENT_SCOPE)
    set(PENSTOCK_CUDNN "" PARENT_SCOPE)
  endif()
endfunction()

set(PENSTOCK_HAVE_CUDA OFF)
if(NOT PENSTOCK_CUDA MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "PENSTOCK_CUDA is auto, on or off, not \"${PENSTOCK_CUDA}\"")
elseif(PENSTOCK_CUDA STREQUAL "off")
  set(PENSTOCK_CUDA_WHY "PENSTOCK_CUDA=off")
elseif(PENSTOCK_CUDA STREQUAL "auto" AND PENSTOCK_SANITIZE)
  set(PENSTOCK_CUDA_WHY "sanitizers")
else()
  penstock_find_cuda(PENSTOCK_CUDA_WHY)
  if(NOT PENSTOCK_CUDA_WHY)
    set(CMAKE_CUDA_COMPILER ${PENSTOCK_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES ${PENSTOCK_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    set(PENSTOCK_HAVE_CUDA ON)
    penstock_find_cudnn()
    if(PENSTOCK_CUDNN_INCLUDE)
      set(with "cuDNN")
    else()
      set(with "no cuDNN 9")
    endif()
    set(PENSTOCK_CUDA_WHY
      "nvcc ${CMAKE_CUDA_COMPILER_VERSION}, ${PENSTOCK_CUDA_ARCHITECTURES}, ${with}")
  elseif(PENSTOCK_CUDA STREQUAL "on")
    message(FATAL_ERROR "PENSTOCK_CUDA=on, but ${PENSTOCK_CUDA_WHY}")
  endif()
endif()

# Own kernels, an object library since nvcc takes other flags. Rounding as on the cpu device: nothing
# contracted, subnormals flushed.
function(penstock_cuda_flags target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/core ${PROJECT_SOURCE_DIR}/plugins
    ${PROJECT_SOURCE_DIR}/include)
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 17 CUDA_VISIBILITY_PRESET hidden
    CUDA_RUNTIME_LIBRARY Shared POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE --fmad=false --ftz=true
    "-Xcompiler=-Wall,-Wextra,-fno-strict-aliasing,-ffp-contract=off"
    $<$<BOOL:${PENSTOCK_WERROR}>:--Werror=all-warnings> $<$<BOOL:${PENSTOCK_WERROR}>:-Xcompiler=-Werror>)
endfunction()
