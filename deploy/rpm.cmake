# The same packages for hosts with RPM (`make rpm`), of the same files and with rpm/'s scriptlets. What
# they need of libraries is what this host has: cgpu's programs are static but for cgpu-burn (libc) and
# cgpu-sim (libfuse3), those of the other two need libraries by the names of the distribution that they
# were built on.
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_PACKAGE_RELOCATABLE OFF)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_GROUP System)
set(CPACK_RPM_PACKAGE_VENDOR "The cgpu authors")
# The files as they are, and no links to programs by their build ids. With SOURCE_DATE_EPOCH in the
# environment, nothing of the time and host of the build.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define __os_install_post %{nil}
%define _build_id_links none
%define _buildhost localhost
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1")
# Folders of other packages.
foreach(folder IN ITEMS bash-completion bash-completion/completions fish fish/vendor_completions.d man man/man1
                        man/man8 zsh zsh/site-functions)
  list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/${folder})
endforeach()
list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib/systemd /usr/lib/systemd/system)

foreach(package IN ITEMS CGPU KUBERNETES EXPORTER)
  set(CPACK_RPM_${package}_PACKAGE_NAME ${CPACK_DEBIAN_${package}_PACKAGE_NAME})
  string(REGEX MATCH "^([^\n]*)\n(.*)$" whole "${CPACK_DEBIAN_${package}_DESCRIPTION}")
  set(CPACK_RPM_${package}_PACKAGE_SUMMARY "${CMAKE_MATCH_1}")
  set(CPACK_RPM_${package}_PACKAGE_DESCRIPTION "${CMAKE_MATCH_2}")
endforeach()

# One removal for both: Debian's script, whose two words of Debian become RPM's.
file(READ ${CMAKE_CURRENT_SOURCE_DIR}/debian/prerm script)
foreach(pair IN ITEMS "[ \"$1\" = remove ]=>[ \"$1\" = 0 ]"
                      "deb-systemd-invoke stop cgpud.service=>systemctl --no-reload disable --now cgpud.service")
  string(REGEX MATCH "^(.*)=>(.*)$" whole "${pair}")
  string(FIND "${script}" "${CMAKE_MATCH_1}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "debian/prerm has no ${CMAKE_MATCH_1}")
  endif()
  string(REPLACE "${CMAKE_MATCH_1}" "${CMAKE_MATCH_2}" script "${script}")
endforeach()
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/preun "${script}")

set(CPACK_RPM_CGPU_USER_FILELIST "%config(noreplace) /etc/cgpu/config.yaml")
set(CPACK_RPM_CGPU_PACKAGE_REQUIRES_PRE "/usr/sbin/groupadd, /usr/bin/getent")
set(CPACK_RPM_CGPU_PRE_INSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/pre)
set(CPACK_RPM_CGPU_POST_INSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/post)
set(CPACK_RPM_CGPU_PRE_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_BINARY_DIR}/preun)
set(CPACK_RPM_CGPU_POST_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/postun)

set(CPACK_RPM_EXPORTER_PACKAGE_REQUIRES cgpu)
set(CPACK_RPM_EXPORTER_POST_INSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/exporter/post)
set(CPACK_RPM_EXPORTER_PRE_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/exporter/preun)
set(CPACK_RPM_EXPORTER_POST_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/postun)
