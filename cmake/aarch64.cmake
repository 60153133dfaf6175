# SPDX-License-Identifier: Apache-2.0
# By Debian's cross compiler, to be run under qemu-user: tools/aarch64.sh.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
