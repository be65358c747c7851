// A dialog that is open while its owner wants it to be.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Closed until it is wanted; what it shows is made anew each time. */
export function Dialog(props: {
  readonly open: boolean;
  /** Id of its heading. */
  readonly title: string;
  readonly class: string;
  /** Somebody closes it, by a button or by Escape. */
  readonly onClose: () => void;
  /** It has been closed, and the focus is back where it was. */
  readonly onClosed?: () => void;
  readonly children: ComponentChildren;
}) {
  const { open, title, onClose, onClosed, children } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open) {
      dialog.current?.showModal(); // with its contents in it, else nothing there has the focus
    } else if (dialog.current?.open) {
      dialog.current.close();
      onClosed?.();
    }
  }, [open]);
  return (
    // Keys mean here what they mean in a form, and not what they do to the picture behind.
    <dialog
      class={props.class}
      ref={dialog}
      aria-labelledby={title}
      onClose={onClose}
      onKeyDown={(event) => event.stopPropagation()}
    >
      {open && children}
    </dialog>
  );
}
