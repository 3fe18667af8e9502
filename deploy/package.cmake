# Three packages of what is installed, with debian/'s scripts:
#
#   cgpu_VERSION_ARCHITECTURE.deb             a host's programs, and /etc/cgpu/config.yaml
#   cgpu-kubernetes_VERSION_ARCHITECTURE.deb  programs of Kubernetes. They need libcurl, libssl and
#                                             libcpp-httplib, which cgpu does without
#   cgpu-exporter_VERSION_ARCHITECTURE.deb    metrics for Prometheus. It needs libprometheus-cpp-core
#                                             and libcpp-httplib
install(FILES config.yaml DESTINATION /etc/cgpu COMPONENT settings EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cgpu)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The cgpu authors <cgpu@localhost>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR})
# Paths outside of the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/zsh_folder.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL host settings kubernetes exporter)
set(CPACK_COMPONENT_HOST_GROUP cgpu)
set(CPACK_COMPONENT_SETTINGS_GROUP cgpu)
set(CPACK_COMPONENT_KUBERNETES_GROUP kubernetes)
set(CPACK_COMPONENT_EXPORTER_GROUP exporter)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_CGPU_PACKAGE_NAME cgpu)
set(CPACK_DEBIAN_CGPU_DESCRIPTION "GPU sharing for containers, held at the kernel's boundary
Many containers on one NVIDIA GPU, each held to its part of the memory by
seccomp user notification: no kernel module, no preloaded library, no
changed image. With a simulated driver to try it without a GPU.")
# Beside what the programs are linked with: for the group. The engines bring the OCI runtime.
set(CPACK_DEBIAN_CGPU_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_CGPU_PACKAGE_RECOMMENDS "runc | crun | containerd.io")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/conffiles "/etc/cgpu/config.yaml\n")
set(CPACK_DEBIAN_CGPU_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/conffiles)
foreach(script IN ITEMS postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_CGPU_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/debian/${script})
endforeach()

install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/cgpu-kubernetes
        RENAME copyright COMPONENT kubernetes)
set(CPACK_DEBIAN_KUBERNETES_PACKAGE_NAME cgpu-kubernetes)
set(CPACK_DEBIAN_KUBERNETES_DESCRIPTION "GPU sharing for the pods of a Kubernetes cluster
cgpu-scheduler decides which GPUs a pod gets, cgpu-device-plugin gives the
package cgpu the grants of a node's pods, kubectl inspect cgpu shows them.")

install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/cgpu-exporter
        RENAME copyright COMPONENT exporter)
set(CPACK_DEBIAN_EXPORTER_PACKAGE_NAME cgpu-exporter)
set(CPACK_DEBIAN_EXPORTER_DESCRIPTION "GPU metrics of containers for Prometheus, and a page
cgpu-exporter shows what each container with a slice of a GPU is given and what
it uses: memory, compute time, driver calls.")
set(CPACK_DEBIAN_EXPORTER_PACKAGE_DEPENDS cgpu)
foreach(script IN ITEMS postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_EXPORTER_PACKAGE_CONTROL_EXTRA
       ${CMAKE_CURRENT_SOURCE_DIR}/debian/exporter/${script})
endforeach()
include(rpm.cmake)
include(CPack)
