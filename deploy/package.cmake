# cgpu_VERSION_ARCHITECTURE.deb: what is installed, /etc/cgpu/config.yaml, and debian/'s scripts.
install(FILES config.yaml DESTINATION /etc/cgpu COMPONENT settings EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cgpu)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The cgpu authors <cgpu@localhost>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "GPU sharing for containers, held at the kernel's boundary")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Many containers on one NVIDIA GPU, each held to its part of the memory by
seccomp user notification: no kernel module, no preloaded library, no
changed image. With a simulated driver to try it without a GPU.")
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};cgpu;ALL;/"
                                 "${CMAKE_BINARY_DIR};cgpu;settings;/")
# Paths outside of the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
# Beside what the programs are linked with: for the group. The engines bring the OCI runtime.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "runc | crun | containerd.io")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/conffiles "/etc/cgpu/config.yaml\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/conffiles)
foreach(script IN ITEMS postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/debian/${script})
endforeach()
include(CPack)
