# SPDX-License-Identifier: Apache-2.0
# A program that the block must link with the library.
cmake_minimum_required(VERSION 3.22)
project(train LANGUAGES C)
add_executable(train ${SOURCE}/examples/adopt/after.c)
target_link_libraries(train PRIVATE m)
# BLOCK
