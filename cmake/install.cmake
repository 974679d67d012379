# SPDX-License-Identifier: MIT
# Where things go: cmake --install BUILD [--prefix DIRECTORY].
include(GNUInstallDirs)

if(TARGET itemctl)
    install(TARGETS itemctl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(FILES man/itemctl.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

if(TARGET itemfs)
    install(TARGETS itemfs RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    # mount(8) finds helpers of its own, for "mount -t itemfs" and fstab, in sbin only.
    install(CODE "
        set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_SBINDIR}\")
        file(MAKE_DIRECTORY \"\${folder}\")
        file(RELATIVE_PATH target \"\${folder}\"
             \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/itemfs\")
        message(STATUS \"Installing: \${folder}/mount.itemfs -> \${target}\")
        file(CREATE_LINK \"\${target}\" \"\${folder}/mount.itemfs\" SYMBOLIC)")
    install(FILES man/itemfs.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
endif()

install(FILES man/mount.conf.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
# What the man pages call docs/NAME.md.
file(GLOB DOCUMENTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.md)
install(FILES README.md CHANGELOG.md mount.conf.example DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${DOCUMENTS} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
