# Everything comes from Debian's packages; see PACKAGES in the Makefile.
include(GoogleTest)
find_package(GTest CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_path(TOMLPLUSPLUS_HEADERS toml++/toml.h REQUIRED)  # headers only: programs are static
find_package(rapidcheck CONFIG REQUIRED)
find_library(YAML_CPP_LIBRARY libyaml-cpp.a REQUIRED)
find_package(CURL REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(fuse3 REQUIRED IMPORTED_TARGET fuse3)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)
# The kubelet speaks gRPC.
pkg_check_modules(grpc REQUIRED IMPORTED_TARGET grpc++)
pkg_check_modules(protobuf REQUIRED IMPORTED_TARGET protobuf)
find_program(PROTOC protoc REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
